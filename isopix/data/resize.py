"""Resizing: the largest box of the wanted shape inside a picture, brought to rows x cols; never squashed.

Scaling the shorter side to fit and then cropping is the same as cropping that box first, so both are one
Pillow call.
"""

from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

Resample = Literal["area", "bilinear", "bicubic"]

# All three average over the box when they shrink (antialias); `area` repeats pixels when it enlarges.
FILTERS: dict[Resample, Image.Resampling] = {
    "area": Image.Resampling.BOX,
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
}


class Place(NamedTuple):
    """Where in the slack a crop lies, from 0 (top, left) to just below 1 (bottom, right)."""

    down: float
    across: float


def crop_box(
    width: int, height: int, rows: int, cols: int, place: Place | None
) -> tuple[float, float, float, float]:
    """(left, top, right, bottom) in pixels of the largest rows:cols box; corners on whole pixels; None: the
    centre."""
    scale = min(height / rows, width / cols)
    tall, wide = scale * rows, scale * cols
    top = _corner(height - tall, place.down if place else None)
    left = _corner(width - wide, place.across if place else None)
    return left, top, min(left + wide, float(width)), min(top + tall, float(height))


def fit(
    image: Image.Image, rows: int, cols: int, resample: Resample, place: Place | None
) -> NDArray[np.uint8]:
    """uint8 [3 rows cols] of an RGB picture."""
    box = crop_box(*image.size, rows, cols, place)
    return planes(image.resize((cols, rows), FILTERS[resample], box))


def shrink(image: Image.Image, side: int) -> NDArray[np.uint8]:
    """uint8 [3 H W]: the whole picture, area-averaged until its shorter side is `side`; a smaller one stays
    as it is."""
    ratio = side / min(image.size)
    if ratio >= 1:
        return planes(image)
    width, height = (max(side, round(length * ratio)) for length in image.size)
    return planes(image.resize((width, height), Image.Resampling.BOX))


def planes(image: Image.Image) -> NDArray[np.uint8]:
    """uint8 [3 H W] of an RGB picture."""
    pixels: NDArray[Any] = np.asarray(image)
    return np.ascontiguousarray(pixels.transpose(2, 0, 1))


def _corner(slack: float, place: float | None) -> float:
    steps = int(slack + 1e-6)  # whole pixels; the sum forgives rounding of scale * rows
    return float(steps // 2 if place is None else min(int(place * (steps + 1)), steps))
