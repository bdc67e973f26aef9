"""Augmentation: how training batches are sampled from a split, on any device."""

import abc
from dataclasses import dataclass
from math import ceil
from typing import Annotated

import torch
from einops import rearrange
from jaxtyping import Float, Int
from torch import Tensor

from isopix.core.ranges import Probability, Range
from isopix.core.registry import Part, register
from isopix.core.types import Images
from isopix.data.full_resolution import FullResolution
from isopix.data.splits import Indices, Split

Lengths = Float[Tensor, " B"]


class AugmentationSpec(Part, noun="augmentation"):
    """Settings of an augmentation."""

    @abc.abstractmethod
    def source_side(self, rows: int, cols: int) -> int | None:
        """Return the shorter side, in pixels, of the full-resolution images to store; None to store none.

        Raises ValueError for an image size that it does not support.
        """

    @abc.abstractmethod
    def sample(self, split: Split, indices: Indices, generator: torch.Generator) -> Images:
        """Return augmented images with these indices."""


@register("none")
class NoAugmentation(AugmentationSpec):
    """The images unchanged."""

    def source_side(self, rows: int, cols: int) -> None:
        """Full-resolution images are not needed."""

    def sample(self, split: Split, indices: Indices, generator: torch.Generator) -> Images:
        return _images(split, indices)


@register("pad_crop_flip")
class PadCropFlip(AugmentationSpec):
    """Reflection padding, random crop, horizontal flip (iGPT section 3.1, CIFAR)."""

    pad: Annotated[int, Range(low=0)] = 4
    """Pixels of padding on each side."""
    flip: Probability = 0.5
    """Probability of a horizontal flip."""

    def source_side(self, rows: int, cols: int) -> None:
        """Full-resolution images are not needed. Raises ValueError if a side is too short to be reflected."""
        if self.pad >= min(rows, cols):
            raise ValueError(
                f"pad {self.pad} does not fit images of {rows}x{cols}; allowed: below {min(rows, cols)}"
            )

    def sample(self, split: Split, indices: Indices, generator: torch.Generator) -> Images:
        return pad_crop_flip(_images(split, indices), pad=self.pad, flip=self.flip, generator=generator)

    def label(self) -> str:
        return f"pad {self.pad}, random crop, flip with probability {self.flip:g}"


@register("scale_crop")
class ScaleCrop(AugmentationSpec):
    """Shorter side uniform in [min_side, max_side], random square crop, input resolution (iGPT section 3.1,
    which has no flip); then a horizontal flip with probability `flip`.

    A crop of `crop` pixels from an image whose shorter side is r is a box of crop/r of that side: it is cut
    at a uniformly random position from the full-resolution image and area-averaged to rows x cols in one
    step. The full-resolution images are stored with a shorter side of `source_side`, so that even the
    smallest box has two stored pixels for each output pixel: about 48 KB per photograph for 32x32. For inputs
    that are not square the box has their aspect ratio.
    """

    min_side: int = 256
    """Shortest shorter side, in pixels."""
    max_side: int = 384
    """Longest shorter side."""
    crop: int = 224
    """Side of the crop, in pixels."""
    flip: Probability = 0.0
    """Probability of a horizontal flip."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.crop <= self.min_side <= self.max_side:
            raise ValueError(
                f"crop {self.crop}, min_side {self.min_side}, max_side {self.max_side}; "
                "allowed: crop <= min_side <= max_side"
            )

    def source_side(self, rows: int, cols: int) -> int:
        return ceil(2 * max(rows, cols) * self.max_side / self.crop)

    def sample(self, split: Split, indices: Indices, generator: torch.Generator) -> Images:
        assert split.full_resolution is not None, "the split was loaded for another augmentation"
        sides = torch.randint(self.min_side, self.max_side + 1, (len(indices),), generator=generator)
        rows, cols = split.images.shape[2:]
        full = split.full_resolution.read(indices)
        boxes = random_boxes(full, rows, cols, scale=self.crop / sides, generator=generator)
        images = average_boxes(full, boxes, rows, cols)
        return pad_crop_flip(images, pad=0, flip=self.flip, generator=generator) if self.flip else images

    def label(self) -> str:
        crop = f"scale to {self.min_side}–{self.max_side}, random crop of {self.crop}"
        return f"{crop}, flip with probability {self.flip:g}"


def pad_crop_flip(images: Images, *, pad: int, flip: float, generator: torch.Generator) -> Images:
    """Shift each image by up to `pad` pixels with reflected borders and flip it at random, in one gather."""
    count, _, height, width = images.shape
    shifts = torch.randint(-pad, pad + 1, (2, count, 1), generator=generator)
    flipped = torch.rand(count, 1, generator=generator) < flip
    if pad == 0:  # without the indices of every pixel
        return torch.where(rearrange(flipped, "b 1 -> b 1 1 1").to(images.device), images.flip(3), images)
    y = _reflect(torch.arange(height) + shifts[0], height)
    x = _reflect(torch.arange(width) + shifts[1], width)
    x = torch.where(flipped, x.flip(1), x)
    y, x = y.to(images.device), x.to(images.device)
    batch = torch.arange(count, device=images.device)[:, None, None, None]
    channels = torch.arange(3, device=images.device)[:, None, None]
    return images[batch, channels, y[:, None, :, None], x[:, None, None, :]]


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


def _images(split: Split, indices: Indices) -> Images:
    return split.images[indices.to(split.images.device, non_blocking=True)]


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


def _reflect(position: Tensor, length: int) -> Tensor:
    """Reflection padding: -1 becomes 1, and length becomes length - 2."""
    return (length - 1) - ((length - 1) - position.abs()).abs()
