"""Boxes cut from whole images and averaged to one resolution."""

from dataclasses import dataclass

import torch
from einops import rearrange
from jaxtyping import Float, Int
from torch import Tensor

from isopix.core.types import Images
from isopix.data.full_resolution import FullResolution

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
    return CropBoxes(position[0] * (heights - height), position[1] * (widths - width), height, width)


def average_boxes(full: FullResolution, boxes: CropBoxes, rows: int, cols: int) -> Images:
    """Average each box by area to rows x cols: two small matrix products per image, whose rows sum to 1.

    Memory grows with the boxes, not with the images, so that one long image costs no more than others.
    """
    device = full.pixels.device
    row, col = _covered(boxes.top, boxes.height), _covered(boxes.left, boxes.width)
    row_weights = _overlaps(boxes.top, boxes.height, rows, row).to(device, non_blocking=True)
    col_weights = _overlaps(boxes.left, boxes.width, cols, col).to(device, non_blocking=True)
    pixels = gather_pixels(full, row, col).float()
    averaged = torch.einsum("b r h, b c h w, b s w -> b c r s", row_weights, pixels, col_weights)
    return averaged.round_().clamp_(0, 255).to(torch.uint8)


def gather_pixels(full: FullResolution, row: Int[Tensor, "B h"], col: Int[Tensor, "B w"]) -> Images:
    """Return these rows and columns of each image; indices beyond its border repeat the last pixel."""
    heights, widths = (rearrange(sizes, "b -> b 1") for sizes in (full.heights, full.widths))
    row, col = torch.minimum(row, heights - 1), torch.minimum(col, widths - 1)
    line = rearrange(full.starts, "b -> b 1") + row * widths
    plane = torch.arange(3) * heights * widths
    lines, columns = rearrange(line, "b h -> b 1 h 1"), rearrange(col, "b w -> b 1 1 w")
    offsets = (rearrange(plane, "b c -> b c 1 1"), lines, columns)
    plane, line, col = (offset.to(full.pixels.device, non_blocking=True) for offset in offsets)
    return full.pixels[plane + line + col]


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
