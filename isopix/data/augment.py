"""Augmentation: how a batch is drawn from a split: (split, numbers, generator) to images, on any device."""

from dataclasses import dataclass
from math import ceil
from typing import Literal

import torch
from einops import rearrange
from jaxtyping import Float, Int
from torch import Tensor

from isopix.core.config import spec
from isopix.core.types import Images
from isopix.data.splits import Index, Split, Wide

Lengths = Float[Tensor, " B"]


@spec
class Plain:
    """The images as they are."""

    kind: Literal["none"] = "none"

    def stored_side(self, rows: int, cols: int) -> None:
        """No whole pictures are needed."""

    def take(self, split: Split, index: Index, generator: torch.Generator) -> Images:
        return _images(split, index)

    def label(self) -> str:
        return "none"


@spec
class PadCropFlip:
    """Reflect-pad, crop back at random, flip with probability `flip` (iGPT section 3.1, for CIFAR)."""

    kind: Literal["pad_crop_flip"] = "pad_crop_flip"
    pad: int = 4
    flip: float = 0.5

    def __post_init__(self) -> None:
        if self.pad < 0:
            raise ValueError(f"pad {self.pad}; allowed: 0 or more")
        _check_flip(self.flip)

    def stored_side(self, rows: int, cols: int) -> None:
        """No whole pictures are needed. Raises ValueError if a side is too short to be reflected."""
        if self.pad >= min(rows, cols):
            raise ValueError(
                f"pad {self.pad} does not fit images of {rows}x{cols}; allowed: below {min(rows, cols)}"
            )

    def take(self, split: Split, index: Index, generator: torch.Generator) -> Images:
        return pad_crop_flip(_images(split, index), pad=self.pad, flip=self.flip, generator=generator)

    def label(self) -> str:
        return f"pad {self.pad}, random crop, flip with probability {self.flip:g}"


@spec
class ScaleCrop:
    """Shorter side uniform in [shortest, longest], random square crop, input resolution (iGPT section 3.1,
    which has no flip); then mirrored with probability `flip`.

    A crop of `crop` pixels from a picture whose shorter side is r is a box of crop/r of that side: it is cut
    at a uniform place from the whole picture and area-averaged to rows x cols in one step. The whole pictures
    are kept with a shorter side of `stored_side`, so the tightest box still has two stored pixels for each
    one of the result: about 48 KB a photograph for 32x32. For inputs that are not square the box has their
    shape.
    """

    kind: Literal["imagenet"] = "imagenet"
    shortest: int = 256
    longest: int = 384
    crop: int = 224
    flip: float = 0.0

    def __post_init__(self) -> None:
        if not 0 < self.crop <= self.shortest <= self.longest:
            raise ValueError(
                f"crop {self.crop}, shortest {self.shortest}, longest {self.longest} are not in rising order"
            )
        _check_flip(self.flip)

    def stored_side(self, rows: int, cols: int) -> int:
        """Shorter side in pixels of the whole pictures to keep."""
        return ceil(2 * max(rows, cols) * self.longest / self.crop)

    def take(self, split: Split, index: Index, generator: torch.Generator) -> Images:
        assert split.wide is not None, "the split was loaded for another augmentation"
        sides = torch.randint(self.shortest, self.longest + 1, (len(index),), generator=generator)
        rows, cols = split.images.shape[2:]
        wide = split.wide.take(index)
        boxes = random_boxes(wide, rows, cols, scale=self.crop / sides, generator=generator)
        images = average_boxes(wide, boxes, rows, cols)
        return pad_crop_flip(images, pad=0, flip=self.flip, generator=generator) if self.flip else images

    def label(self) -> str:
        crop = f"scale to {self.shortest}–{self.longest}, random crop of {self.crop}"
        return f"{crop}, flip with probability {self.flip:g}"


Augmentation = Plain | PadCropFlip | ScaleCrop


def pad_crop_flip(images: Images, *, pad: int, flip: float, generator: torch.Generator) -> Images:
    """Each image shifted by up to `pad` pixels, its border reflected, and perhaps flipped; in one gather."""
    count, _, height, width = images.shape
    shifts = torch.randint(-pad, pad + 1, (2, count, 1), generator=generator)
    flipped = torch.rand(count, 1, generator=generator) < flip
    down = _reflect(torch.arange(height) + shifts[0], height)
    across = _reflect(torch.arange(width) + shifts[1], width)
    across = torch.where(flipped, across.flip(1), across)
    down, across = down.to(images.device), across.to(images.device)
    numbers = torch.arange(count, device=images.device)[:, None, None, None]
    channels = torch.arange(3, device=images.device)[:, None, None]
    return images[numbers, channels, down[:, None, :, None], across[:, None, None, :]]


@dataclass(frozen=True)
class Boxes:
    """A box in each picture, in its pixels."""

    top: Lengths
    left: Lengths
    height: Lengths
    width: Lengths


def random_boxes(wide: Wide, rows: int, cols: int, *, scale: Tensor, generator: torch.Generator) -> Boxes:
    """Boxes of the shape rows:cols, `scale` times the largest that fits, at uniform places."""
    heights, widths = wide.heights.float(), wide.widths.float()
    side = torch.minimum(heights / rows, widths / cols) * scale
    place = torch.rand(2, len(heights), generator=generator)
    height, width = side * rows, side * cols
    return Boxes(place[0] * (heights - height), place[1] * (widths - width), height, width)


def average_boxes(wide: Wide, boxes: Boxes, rows: int, cols: int) -> Images:
    """Each box averaged by area to rows x cols: two small matrix products an image, whose rows sum to 1.

    Memory grows with the boxes, not with the pictures, so one long picture costs no more than others.
    """
    device = wide.pixels.device
    row, col = _touched(boxes.top, boxes.height), _touched(boxes.left, boxes.width)
    down = _overlaps(boxes.top, boxes.height, rows, row).to(device, non_blocking=True)
    across = _overlaps(boxes.left, boxes.width, cols, col).to(device, non_blocking=True)
    pixels = gather(wide, row, col).float()
    averaged = torch.einsum("b r h, b c h w, b s w -> b c r s", down, pixels, across)
    return averaged.round().clamp(0, 255).to(torch.uint8)


def gather(wide: Wide, row: Int[Tensor, "B h"], col: Int[Tensor, "B w"]) -> Images:
    """These rows and columns of each picture; beyond its edge a picture repeats it, where no box reaches."""
    heights, widths = (rearrange(sizes, "b -> b 1") for sizes in (wide.heights, wide.widths))
    row, col = torch.minimum(row, heights - 1), torch.minimum(col, widths - 1)
    line = rearrange(wide.starts, "b -> b 1") + row * widths
    plane = torch.arange(3) * heights * widths
    lines, columns = rearrange(line, "b h -> b 1 h 1"), rearrange(col, "b w -> b 1 1 w")
    places = (rearrange(plane, "b c -> b c 1 1"), lines, columns)
    plane, line, col = (place.to(wide.pixels.device, non_blocking=True) for place in places)
    return wide.pixels[plane + line + col]


def _check_flip(flip: float) -> None:
    if not 0 <= flip <= 1:
        raise ValueError(f"flip {flip}; allowed: from 0 to 1")


def _images(split: Split, index: Index) -> Images:
    return split.images[index.to(split.images.device, non_blocking=True)]


def _touched(start: Lengths, length: Lengths) -> Int[Tensor, "B pixels"]:
    """The pixels from the first that [start, start + length] touches; as many as the longest box touches."""
    first = start.floor()
    count = int(((start + length).ceil() - first).max())
    return rearrange(first.long(), "b -> b 1") + torch.arange(count)


def _overlaps(
    start: Lengths, length: Lengths, cells: int, pixels: Int[Tensor, "B pixels"]
) -> Float[Tensor, "B cells pixels"]:
    """The share of each pixel in each cell, when [start, start + length] is cut into equal cells."""
    step = rearrange(length / cells, "b -> b 1 1")
    low = rearrange(start, "b -> b 1 1") + step * torch.arange(cells)[:, None]
    pixel = rearrange(pixels, "b p -> b 1 p").float()
    shared = torch.minimum(low + step, pixel + 1.0) - torch.maximum(low, pixel)
    shared = shared.clamp(min=0)
    return shared / shared.sum(2, keepdim=True)


def _reflect(position: Tensor, length: int) -> Tensor:
    """-1 is 1, and length is length - 2, as in reflect padding."""
    return (length - 1) - ((length - 1) - position.abs()).abs()
