"""Codecs: images to integer codes and back, position by position.

A codec's settings give the side of a position in pixels, and build the codec: from images, from a checkpoint,
or with placeholder values for counting parameters.
"""

from isopix.codecs.base import CodecSpec
from isopix.codecs.bytes import BytesSpec
from isopix.codecs.palette_spec import PaletteSpec
from isopix.codecs.patch import DownsampledColorSpec, FullPatchSpec, GrayThumbnailSpec, MeanColorSpec

__all__ = [
    "BytesSpec",
    "CodecSpec",
    "DownsampledColorSpec",
    "FullPatchSpec",
    "GrayThumbnailSpec",
    "MeanColorSpec",
    "PaletteSpec",
]
