"""Boxes cut from whole images and averaged to one resolution."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from einops import rearrange
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from isopix.core.types import Images
from isopix.data.store import FullResolution

Lengths = Float[Tensor, " B"]


@dataclass(frozen=True)
class CropBoxes:
    """One box per image, in pixels of that image."""

    top: Lengths
    left: Lengths
    height: Lengths
    width: Lengths


def random_boxes(
    full: FullResolution, rows: int, cols: int, *, scale: Tensor, generator: torch.Generator
) -> CropBoxes:
    """Return boxes of aspect ratio rows:cols, `scale` times the largest that fits, at uniform positions."""
    heights, widths = full.heights.float(), full.widths.float()
    side = torch.minimum(heights / rows, widths / cols) * scale
    position = torch.rand(2, len(heights), generator=generator)
    height, width = side * rows, side * cols
    top, left = (heights - height).clamp(min=0), (widths - width).clamp(min=0)  # rounded, it may be negative
    return CropBoxes(position[0] * top, position[1] * left, height, width)


def average_boxes(full: FullResolution, boxes: CropBoxes, rows: int, cols: int) -> Images:
    """Average each box by area to rows x cols; an image that is not decoded gives a black one.

    Memory grows with the boxes, not with the images, so that one long image costs no more than others.
    """
    if full.device.type != "cpu":
        return average_together(full, boxes, rows, cols)
    return average_each(full, boxes, rows, cols)


def average_together(full: FullResolution, boxes: CropBoxes, rows: int, cols: int) -> Images:
    """Average boxes on any device: two small matrix products per image, whose rows sum to 1."""
    device = full.device
    row, col = _covered(boxes.top, boxes.height), _covered(boxes.left, boxes.width)
    row_weights = _overlaps(boxes.top, boxes.height, rows, row).to(device, non_blocking=True)
    col_weights = _overlaps(boxes.left, boxes.width, cols, col).to(device, non_blocking=True)
    pixels = gather_pixels(full, row, col).float()
    averaged = torch.einsum("b r h, b c h w, b s w -> b c r s", row_weights, pixels, col_weights)
    return averaged.round_().clamp_(0, 255).to(torch.uint8)


def average_each(full: FullResolution, boxes: CropBoxes, rows: int, cols: int) -> Images:
    """Average boxes as `average_together` does, faster on a CPU: image by image, and in each sum only the few
    pixels that a cell covers.
    """
    averaged = torch.zeros(len(full.heights), 3, rows, cols, dtype=torch.uint8)
    row_cells = _cells(boxes.top, boxes.height, rows, full.heights)
    col_cells = _cells(boxes.left, boxes.width, cols, full.widths)
    for result, image, row, col in zip(averaged, full.images(), row_cells, col_cells, strict=True):
        if image is None:
            continue
        box = image[:, row.pixels, col.pixels].transpose(1, 2, 0).astype(np.float32, order="C")
        lines = row.average(torch.from_numpy(box).flatten(1))
        means = col.average(lines.t().reshape(box.shape[1], -1))
        result.copy_(rearrange(means.round_().clamp_(0, 255), "s (c r) -> c r s", c=3))
    return averaged


def gather_pixels(full: FullResolution, row: Int[Tensor, "B h"], col: Int[Tensor, "B w"]) -> Images:
    """Return these rows and columns of each image; beyond its border the last pixel is repeated."""
    heights, widths = (rearrange(sizes, "b -> b 1") for sizes in (full.heights, full.widths))
    row, col = torch.minimum(row, heights - 1), torch.minimum(col, widths - 1)
    line = rearrange(full.rows, "b -> b 1") + row * widths
    plane = torch.arange(3) * heights * widths
    lines, columns = rearrange(line, "b h -> b 1 h 1"), rearrange(col, "b w -> b 1 1 w")
    offsets = (rearrange(plane, "b c -> b c 1 1"), lines, columns)
    plane, line, col = (offset.to(full.device, non_blocking=True) for offset in offsets)
    pixels, *others = full.files
    assert isinstance(pixels, Tensor), "they are decoded"
    assert not others, "they are packed"
    return pixels[plane + line + col]


@dataclass(frozen=True)
class _Cells:
    """Equal cells of a range of pixels: the range, and which of its pixels each cell covers, and how much."""

    pixels: slice
    covered: Int[Tensor, "cells pixels"]
    weights: Float[Tensor, "cells pixels"]

    def average(self, values: Float[Tensor, "range n"]) -> Float[Tensor, "cells n"]:
        """Return the weighted mean of each cell; the weights of a cell sum to 1."""
        return functional.embedding_bag(self.covered, values, per_sample_weights=self.weights, mode="sum")


def _cells(start: Lengths, length: Lengths, cells: int, limit: Int[Tensor, " B"]) -> Iterator[_Cells]:
    """Cut [start, start + length] of each image, of which `limit` pixels exist, into equal cells."""
    step = rearrange(length / cells, "b -> b 1")
    low = rearrange(start, "b -> b 1") + step * torch.arange(cells)
    first = low.floor()
    most = int(((low + step).ceil() - first).max())
    pixel = rearrange(first, "b s -> b s 1") + torch.arange(most)
    low, step = rearrange(low, "b s -> b s 1"), rearrange(step, "b 1 -> b 1 1")
    overlap = (torch.minimum(low + step, pixel + 1.0) - torch.maximum(low, pixel)).clamp_(min=0)
    weights = overlap / overlap.sum(2, keepdim=True)
    covered = torch.minimum(pixel.long(), rearrange(limit, "b -> b 1 1") - 1)
    firsts, ends = covered[:, 0, 0], covered[:, -1, -1] + 1
    within = covered - rearrange(firsts, "b -> b 1 1")
    for begin, end, *chosen in zip(firsts.tolist(), ends.tolist(), within, weights, strict=True):
        yield _Cells(slice(begin, end), *chosen)


def _covered(start: Lengths, length: Lengths) -> Int[Tensor, "B pixels"]:
    """Return the pixels that [start, start + length] covers in part; as many as the longest box covers."""
    first = start.floor()
    count = int(((start + length).ceil() - first).max())
    return rearrange(first.long(), "b -> b 1") + torch.arange(count)


def _overlaps(
    start: Lengths, length: Lengths, cells: int, pixels: Int[Tensor, "B pixels"]
) -> Float[Tensor, "B cells pixels"]:
    """Return the fraction of each pixel in each cell, if [start, start + length] is cut into equal cells."""
    step = rearrange(length / cells, "b -> b 1 1")
    low = rearrange(start, "b -> b 1 1") + step * torch.arange(cells)[:, None]
    pixel = rearrange(pixels, "b p -> b 1 p").float()
    overlap = torch.minimum(low + step, pixel + 1.0) - torch.maximum(low, pixel)
    overlap = overlap.clamp(min=0)
    return overlap / overlap.sum(2, keepdim=True)
