"""Augmentation: how training batches are sampled from a split, on any device."""

import abc
from math import ceil
from typing import Annotated

import torch
from einops import rearrange, repeat
from torch import Tensor

from isopix.core.choices import Probability, Range
from isopix.core.registry import Part, register
from isopix.core.types import Images
from isopix.data.crop_boxes import average_boxes, random_boxes
from isopix.data.splits import Indices, Split


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
        full = split.full_resolution.select(indices)
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
