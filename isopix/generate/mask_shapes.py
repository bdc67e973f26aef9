"""Shapes of masks, in pixels: rectangles, brush strokes, and masks of another size.

A pixel is hidden if any part of it is.
"""

import math
from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Bool
from torch import Tensor

from isopix.data.resize import crop_box

PixelShape = Bool[Tensor, "H W"]
ROUNDING = 1e-6  # of a pixel: how far an edge may be off a whole one


def rectangle(size: tuple[int, int], top: float, left: float, height: float, width: float) -> PixelShape:
    """Hide a rectangle of a picture of `size`, in pixels. Raises ValueError if it is empty or reaches outside
    the picture.
    """
    rows, cols = size
    bottom, right = (math.ceil(end - ROUNDING) for end in (top + height, left + width))
    given = ", ".join(f"{each:g}" for each in (top, left, height, width))
    if min(height, width) <= 0:
        raise ValueError(f"rectangle of top, left, height, width {given} pixels is empty")
    if min(top, left) < 0 or bottom > rows or right > cols:
        raise ValueError(
            f"rectangle of top, left, height, width {given} pixels; it must lie inside the picture of "
            f"{rows} x {cols} pixels"
        )
    hidden = torch.zeros(size, dtype=torch.bool)
    hidden[math.floor(top + ROUNDING) : bottom, math.floor(left + ROUNDING) : right] = True
    return hidden


def brush(size: tuple[int, int], radius: float, points: Sequence[tuple[float, float]]) -> PixelShape:
    """Hide the pixels whose centers are at most `radius` from the line through these points, each the row and
    the column of a pixel.
    """
    rows, cols = (torch.arange(side, dtype=torch.float64) for side in size)
    places = torch.stack(torch.meshgrid(rows, cols, indexing="ij"), -1)
    hidden = torch.zeros(size, dtype=torch.bool)
    for start, end in zip(points, points[1:] or points, strict=False):
        first, along = torch.tensor(start).double(), torch.tensor(end).double() - torch.tensor(start).double()
        share = ((places - first) @ along / along.square().sum().clamp(min=ROUNDING)).clamp(0, 1)
        distance = (places - first - share[..., None] * along).square().sum(-1).sqrt()
        hidden |= distance <= radius + ROUNDING
    return hidden


def fit_to(size: tuple[int, int], mask: Bool[Tensor, "_ _"]) -> PixelShape:
    """Return a mask of any size for a picture of `size`: its center is cropped to the picture's aspect ratio,
    and a pixel is hidden if any part of it is.
    """
    left, top, right, bottom = crop_box(mask.shape[1], mask.shape[0], *size, None)
    above, below = _edges(top, bottom, size[0], mask.shape[0])
    before, after = _edges(left, right, size[1], mask.shape[1])
    sums = np.zeros((mask.shape[0] + 1, mask.shape[1] + 1), dtype=np.int64)
    sums[1:, 1:] = mask.numpy().astype(np.int64).cumsum(0).cumsum(1)
    counts = sums[np.ix_(below, after)] - sums[np.ix_(above, after)]
    counts += sums[np.ix_(above, before)] - sums[np.ix_(below, before)]
    return torch.from_numpy(counts > 0)


def _edges(start: float, end: float, parts: int, length: int) -> tuple[list[int], list[int]]:
    """The first line, and that after the last one, that each of equal parts of a side touches."""
    step = (end - start) / parts
    first = [math.floor(start + i * step + ROUNDING) for i in range(parts)]
    last = [min(length, math.ceil(start + (i + 1) * step - ROUNDING)) for i in range(parts)]
    return first, last
