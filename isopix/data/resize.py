"""Resizing: the largest box of the target's aspect ratio, or the whole image, resized to rows x cols.

Cropping the box and resizing it is one call of Pillow. Other libraries resize the shorter side to fit, round
the longer one and then crop, which shifts and stretches images by up to a pixel: `resize_and_crop`.
"""

from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

Resample = Literal["area", "bilinear", "bicubic"]

# All three average over the box when downsampling (antialias); `area` repeats pixels when upsampling.
FILTERS: dict[Resample, Image.Resampling] = {
    "area": Image.Resampling.BOX,
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
}

MAX_RESIZED = 16_000_000  # pixels of an image that is cropped afterwards


class CropPosition(NamedTuple):
    """The position of a crop within the image, from 0 (top, left) to just below 1 (bottom, right)."""

    y: float
    x: float


def crop_box(
    width: int,
    height: int,
    rows: int,
    cols: int,
    position: CropPosition | None,
    *,
    fraction: float = 1.0,
) -> tuple[float, float, float, float]:
    """Return (left, top, right, bottom) of a rows:cols box, the center crop for None; its sides are the given
    fraction of those of the largest one.

    The top left corner lies on a whole pixel.
    """
    scale = fraction * min(height / rows, width / cols)
    box_height, box_width = scale * rows, scale * cols
    top = _corner(height - box_height, position.y if position else None)
    left = _corner(width - box_width, position.x if position else None)
    return left, top, min(left + box_width, float(width)), min(top + box_height, float(height))


def crop_and_resize(
    image: Image.Image,
    rows: int,
    cols: int,
    resample: Resample,
    position: CropPosition | None,
    *,
    fraction: float = 1.0,
) -> NDArray[np.uint8]:
    """Return uint8 [3 rows cols] of a box of an RGB image, as `crop_box` says."""
    box = crop_box(*image.size, rows, cols, position, fraction=fraction)
    return to_chw(image.resize((cols, rows), FILTERS[resample], box))


def resize_and_crop(
    image: Image.Image, rows: int, cols: int, resample: Resample, *, fraction: float = 1.0
) -> NDArray[np.uint8]:
    """Return uint8 [3 rows cols] of the center of an RGB image, which is resized before until it just covers
    `uncropped_side` of both, its other side rounded down, as the image processors of Hugging Face do.

    Raises ValueError if it would have more than MAX_RESIZED pixels.
    """
    width, height = image.size
    least_width, least_height = uncropped_side(cols, fraction), uncropped_side(rows, fraction)
    if width * least_height <= height * least_width:
        resized_width, resized_height = least_width, height * least_width // width
    else:
        resized_width, resized_height = width * least_height // height, least_height
    if resized_width * resized_height > MAX_RESIZED:
        raise ValueError(
            f"{width}x{height} pixels, which would be resized to {resized_width}x{resized_height}, above the "
            f"limit of {MAX_RESIZED:,}"
        )
    resized = image.resize((resized_width, resized_height), FILTERS[resample])
    left, top = (resized_width - cols) // 2, (resized_height - rows) // 2
    return to_chw(resized.crop((left, top, left + cols, top + rows)))


def uncropped_side(side: int, fraction: float) -> int:
    """Return the side of which a crop of `side` pixels is the given fraction, rounded down as timm does."""
    return int(side / fraction + 1e-6)  # the term absorbs the rounding of the fraction


def squash(image: Image.Image, rows: int, cols: int, resample: Resample) -> NDArray[np.uint8]:
    """Return uint8 [3 rows cols] of a whole RGB image, which changes its aspect ratio, as the image
    processors of Hugging Face do.
    """
    return to_chw(image.resize((cols, rows), FILTERS[resample]))


def resize_shorter_side(image: Image.Image, side: int) -> NDArray[np.uint8]:
    """Return uint8 [3 H W] of an RGB image, downsampled until its shorter side is `side`; never upsampled."""
    ratio = side / min(image.size)
    if ratio >= 1:
        return to_chw(image)
    width, height = (max(side, round(length * ratio)) for length in image.size)
    return to_chw(image.resize((width, height), Image.Resampling.BOX))


def to_chw(image: Image.Image) -> NDArray[np.uint8]:
    """Return uint8 [3 H W] of an RGB image."""
    pixels: NDArray[Any] = np.asarray(image)
    return np.ascontiguousarray(pixels.transpose(2, 0, 1))


def _corner(slack: float, position: float | None) -> float:
    steps = int(slack + 1e-6)  # whole pixels; the term absorbs the rounding of scale * rows
    return float(steps // 2 if position is None else min(int(position * (steps + 1)), steps))
