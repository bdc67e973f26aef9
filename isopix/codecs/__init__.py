"""Codecs: images to integer codes and back, position by position.

A codec's spec says all that a run asks of it: the side of a position in pixels, the task of making the codec,
that of some images, the same one from a checkpoint, and one of its size for counting.
"""

from isopix.codecs.base import CodecSpec
from isopix.codecs.patch import DownsampledColour, GreyThumbnail, MeanColour, WholePatch
from isopix.codecs.pixel import ByteChannels, PaletteColours

__all__ = [
    "ByteChannels",
    "CodecSpec",
    "DownsampledColour",
    "GreyThumbnail",
    "MeanColour",
    "PaletteColours",
    "WholePatch",
]
