"""Facts about one image: its size, format and mode, a hash of its content, and small versions of it."""

from typing import NamedTuple

import numpy as np
from jaxtyping import UInt8
from PIL import Image

from isopix.data.decode import (
    RawImage,
    content_number,
    decode_image,
    failure_reason,
    image_header,
    read_content,
)

DECODED = 128  # pixels of the shorter side of a JPEG that is decoded at a fraction, at least
THUMBNAIL = 8  # pixels of a side: also of small images, and too coarse for the marks of compression
Thumbnail = UInt8[np.ndarray, "8 8 3"]


class ImageFacts(NamedTuple):
    """An image that can be read. Width and height are those of the upright image; the format is Pillow's, or
    "array" for pixels that are given as such.
    """

    width: int
    height: int
    format: str
    mode: str
    content_hash: int  # that of its copies too, as `content_number`
    thumbnail: Thumbnail  # the whole image, averaged
    picture: Image.Image | None  # at most `side` pixels wide and high


class ImageJob(NamedTuple):
    """An image to examine, and the sides of the picture to keep of it; None keeps none."""

    raw: RawImage
    side: int | None


def examine_image(job: ImageJob) -> ImageFacts | str:
    """Return the facts about an image, or the reason why it cannot be read.

    Large JPEG files are decoded at a fraction of their size.
    """
    try:
        content = read_content(job.raw)
        header = image_header(content)
        rgb = decode_image(content, max(DECODED, 2 * (job.side or 0)))
        thumbnail = np.asarray(rgb.resize((THUMBNAIL, THUMBNAIL), Image.Resampling.BOX))
        picture = None if job.side is None else _picture(rgb, job.side)
        return ImageFacts(*header, content_number(content, rgb), thumbnail, picture)
    except Exception as error:  # damaged files raise OSError, ValueError, SyntaxError, struct.error and more
        return failure_reason(error)


def _picture(rgb: Image.Image, side: int) -> Image.Image:
    """Return an image reduced to fit into a square; small ones are enlarged by an integer, pixel by pixel."""
    larger = max(rgb.size)
    if larger <= side:
        scale = side // larger
        return rgb.resize((scale * rgb.width, scale * rgb.height), Image.Resampling.NEAREST)
    width, height = (max(1, round(length * side / larger)) for length in rgb.size)
    return rgb.resize((width, height), Image.Resampling.BOX)
