"""Augmentation: how training batches are sampled from a split, on any device."""

import abc
from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, sqrt
from typing import Annotated, NamedTuple

import numpy as np
import torch
from einops import rearrange, repeat
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from isopix.core.choices import Probability, Range
from isopix.core.registry import Part, register
from isopix.core.types import Images
from isopix.data.splits import Indices, Split
from isopix.data.store import FileImages

NUM_DRAWS = 10  # of a box, of which the first that fits is taken
Lengths = Float[Tensor, " B"]


class AugmentationSpec(Part, noun="augmentation"):
    """Settings of an augmentation."""

    def source_side(self, rows: int, cols: int) -> int | None:
        """Return the shorter side, in pixels, of the full-resolution images to store; None to store none.

        Raises ValueError if images of this size cannot be augmented.
        """
        return None

    @abc.abstractmethod
    def sample(self, split: Split, indices: Indices, generator: torch.Generator) -> Images:
        """Return augmented images with these indices."""


@register("none")
class NoAugmentation(AugmentationSpec):
    """The images unchanged."""

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
        if self.pad >= min(rows, cols):
            images = f"images of {rows}x{cols}; allowed: below {min(rows, cols)}"
            raise ValueError(f"pad {self.pad} does not fit {images}")

    def sample(self, split: Split, indices: Indices, generator: torch.Generator) -> Images:
        return pad_crop_flip(_images(split, indices), pad=self.pad, flip=self.flip, generator=generator)

    def label(self) -> str:
        return f"pad {self.pad}, random crop, flip with probability {self.flip:g}"


@register("scale_crop")
class ScaleCrop(AugmentationSpec):
    """Shorter side uniform in [min_side, max_side], random square crop, input resolution (iGPT section 3.1,
    which has no flip); then a horizontal flip with probability `flip`.

    A crop of `crop` pixels from an image of shorter side r is a box of crop/r of it, cut at random from the
    stored image, whose shorter side is `source_side`, and area-averaged in one step. For inputs that are not
    square the box has their aspect ratio.
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
        sides = torch.randint(self.min_side, self.max_side + 1, (len(indices),), generator=generator)
        rows, cols = split.images.shape[2:]
        assert split.full_resolution is not None, "the split was loaded for another augmentation"
        full = split.full_resolution.select(indices)
        boxes = random_boxes(full, rows, cols, scale=self.crop / sides, generator=generator)
        images = average_boxes(full, boxes, rows, cols)
        return pad_crop_flip(images, pad=0, flip=self.flip, generator=generator) if self.flip else images

    def label(self) -> str:
        crop = f"scale to {self.min_side}–{self.max_side}, random crop of {self.crop}"
        return f"{crop}, flip with probability {self.flip:g}"


@register("inception_crop", "Inception crop")
class InceptionCrop(AugmentationSpec):
    """A random box of the image, area-averaged to the inputs, then a horizontal flip (Szegedy et al. 2015,
    section 6; torchvision's `RandomResizedCrop`).

    Its area is `min_area` to all of that of the image, uniform; its aspect ratio that of the inputs times
    1/`max_ratio` to `max_ratio`, uniform in its logarithm. Of ten draws the first that fits is taken; without
    one, the largest box of the first aspect ratio.
    """

    min_area: Annotated[float, Range(above=0, high=1)] = 0.08
    """Smallest area of the box, as a fraction of that of the image."""
    max_ratio: Annotated[float, Range(low=1)] = 4 / 3
    """Largest ratio of width to height, for square inputs."""
    flip: Probability = 0.5
    """Probability of a horizontal flip."""

    def source_side(self, rows: int, cols: int) -> int:
        return ceil(max(rows, cols) / sqrt(self.min_area))

    def sample(self, split: Split, indices: Indices, generator: torch.Generator) -> Images:
        rows, cols = split.images.shape[2:]
        assert split.full_resolution is not None, "the split was loaded for another augmentation"
        full = split.full_resolution.select(indices)
        boxes = resized_boxes(full, cols / rows, self.min_area, self.max_ratio, generator)
        cut = average_boxes(full, boxes, rows, cols)
        return pad_crop_flip(cut, pad=0, flip=self.flip, generator=generator)


def pad_crop_flip(images: Images, *, pad: int, flip: float, generator: torch.Generator) -> Images:
    """Shift each image by up to `pad` pixels with reflected borders and flip it at random, in one gather."""
    count, _, height, width = images.shape
    shifts = torch.randint(-pad, pad + 1, (2, count, 1), generator=generator)
    flipped = torch.rand(count, 1, generator=generator) < flip
    if pad == 0:  # without the indices of every pixel
        chosen = flipped[:, 0].nonzero()[:, 0].to(images.device, non_blocking=True)
        return images.index_copy(0, chosen, images[chosen].flip(3))
    y = _reflect(torch.arange(height) + shifts[0], height)
    x = _reflect(torch.arange(width) + shifts[1], width)
    x = torch.where(flipped, x.flip(1), x)
    y, x = y.to(images.device, non_blocking=True), x.to(images.device, non_blocking=True)
    pixels = rearrange(y * width, "b h -> b h 1") + rearrange(x, "b w -> b 1 w")
    pixels = repeat(pixels, "b h w -> b c (h w)", c=images.shape[1])
    return images.flatten(2).gather(2, pixels).view_as(images)


def _images(split: Split, indices: Indices) -> Images:
    images, indices = split.images, indices.to(split.images.device, non_blocking=True)
    # On a CPU ten times as fast as indexing, which encoded images have alone.
    return images.index_select(0, indices) if isinstance(images, Tensor) else images[indices]


def _reflect(position: Tensor, length: int) -> Tensor:
    """Reflection padding: -1 becomes 1, and length becomes length - 2."""
    return (length - 1) - ((length - 1) - position.abs()).abs()


@dataclass(frozen=True)
class CropBoxes:
    """One box per image, in pixels of that image."""

    top: Lengths
    left: Lengths
    height: Lengths
    width: Lengths


def random_boxes(
    full: FileImages, rows: int, cols: int, *, scale: Tensor, generator: torch.Generator
) -> CropBoxes:
    """Return boxes of aspect ratio rows:cols, `scale` times the largest that fits, at uniform positions."""
    heights, widths = full.heights.float(), full.widths.float()
    side = torch.minimum(heights / rows, widths / cols) * scale
    position = torch.rand(2, len(heights), generator=generator)
    height, width = side * rows, side * cols
    top, left = (heights - height).clamp(min=0), (widths - width).clamp(min=0)  # rounded, it may be negative
    return CropBoxes(position[0] * top, position[1] * left, height, width)


def resized_boxes(
    full: FileImages, aspect: float, min_area: float, max_ratio: float, generator: torch.Generator
) -> CropBoxes:
    """Return the boxes of `InceptionCrop` for inputs of this ratio of width to height."""
    heights, widths = full.heights.float(), full.widths.float()
    area, ratio, top, left = torch.rand(4, NUM_DRAWS, len(heights), generator=generator)
    area = (min_area + (1 - min_area) * area) * heights * widths
    ratio = aspect * max_ratio ** (2 * ratio - 1)
    height, largest = (area / ratio).sqrt(), torch.minimum(heights, widths / ratio)
    first = (height <= largest).long().argmax(0, keepdim=True)
    height, ratio = (each.gather(0, first)[0] for each in (torch.minimum(height, largest), ratio))
    width = height * ratio
    return CropBoxes(top[0] * (heights - height), left[0] * (widths - width), height, width)


def average_boxes(full: FileImages, boxes: CropBoxes, rows: int, cols: int) -> Images:
    """Average each box by area to rows x cols."""
    average = average_each if full.device.type == "cpu" else average_together
    return average(full, boxes, rows, cols)


def average_together(full: FileImages, boxes: CropBoxes, rows: int, cols: int) -> Images:
    """Average each box by area to rows x cols, on any device; memory grows with the boxes alone."""
    row, col = _covered(boxes.top, boxes.height), _covered(boxes.left, boxes.width)
    row_weights = _overlaps(boxes.top, boxes.height, rows, rearrange(row, "b p -> b 1 p").float())
    col_weights = _overlaps(boxes.left, boxes.width, cols, rearrange(col, "b p -> b 1 p").float())
    row_weights, col_weights = (
        each.to(full.device, non_blocking=True) for each in (row_weights, col_weights)
    )
    pixels = _gather_pixels(full, row, col).float()
    averaged = torch.einsum("b r h, b c h w, b s w -> b c r s", row_weights, pixels, col_weights)
    return averaged.round_().clamp_(0, 255).to(torch.uint8)


def average_each(full: FileImages, boxes: CropBoxes, rows: int, cols: int) -> Images:
    """Average boxes as `average_together`, faster on a CPU: a sum has only the pixels of its cell."""
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


def _gather_pixels(full: FileImages, row: Int[Tensor, "B h"], col: Int[Tensor, "B w"]) -> Images:
    """Return these rows and columns of each image; beyond its border the last pixel is repeated."""
    heights, widths = (rearrange(sizes, "b -> b 1") for sizes in (full.heights, full.widths))
    row, col = torch.minimum(row, heights - 1), torch.minimum(col, widths - 1)
    line = rearrange(full.rows, "b -> b 1") + row * widths
    plane = torch.arange(3) * heights * widths
    lines, columns = rearrange(line, "b h -> b 1 h 1"), rearrange(col, "b w -> b 1 1 w")
    offsets = (rearrange(plane, "b c -> b c 1 1"), lines, columns)
    plane, line, col = (offset.to(full.device, non_blocking=True) for offset in offsets)
    [pixels] = full.files
    assert isinstance(pixels, Tensor), "they are decoded"
    return pixels[plane + line + col]


class _Cells(NamedTuple):
    """Equal cells of a range of pixels: the range, and which of its pixels each cell covers, and how much."""

    pixels: slice
    covered: Int[Tensor, "cells pixels"]
    weights: Float[Tensor, "cells pixels"]

    def average(self, values: Float[Tensor, "range n"]) -> Float[Tensor, "cells n"]:
        return functional.embedding_bag(self.covered, values, per_sample_weights=self.weights, mode="sum")


def _cells(start: Lengths, length: Lengths, cells: int, limit: Int[Tensor, " B"]) -> Iterator[_Cells]:
    """Cut [start, start + length] of each image, of which `limit` pixels exist, into equal cells."""
    step = rearrange(length / cells, "b -> b 1")
    low = rearrange(start, "b -> b 1") + step * torch.arange(cells)
    first = low.floor()
    most = int(((low + step).ceil() - first).max())
    pixel = rearrange(first, "b s -> b s 1") + torch.arange(most)
    weights = _overlaps(start, length, cells, pixel)
    covered = torch.minimum(pixel.long(), rearrange(limit, "b -> b 1 1") - 1)
    firsts, ends = covered[:, 0, 0], covered[:, -1, -1] + 1
    within = covered - rearrange(firsts, "b -> b 1 1")
    for begin, end, *chosen in zip(firsts.tolist(), ends.tolist(), within, weights, strict=True):
        yield _Cells(slice(begin, end), *chosen)


def _covered(start: Lengths, length: Lengths) -> Int[Tensor, "B pixels"]:
    first = start.floor()
    count = int(((start + length).ceil() - first).max())
    return rearrange(first.long(), "b -> b 1") + torch.arange(count)


def _overlaps(
    start: Lengths, length: Lengths, cells: int, pixel: Float[Tensor, "B _ pixels"]
) -> Float[Tensor, "B cells pixels"]:
    """Return the weights, of sum 1, of pixels in the equal cells of [start, start + length]."""
    step = rearrange(length / cells, "b -> b 1 1")
    low = rearrange(start, "b -> b 1 1") + step * torch.arange(cells)[:, None]
    overlap = (torch.minimum(low + step, pixel + 1.0) - torch.maximum(low, pixel)).clamp_(min=0)
    return overlap / overlap.sum(2, keepdim=True)
