"""Splits: images with their labels, and which images are held out."""

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

import torch
from jaxtyping import Int, UInt8
from torch import Tensor

from isopix.core.random import generator
from isopix.core.types import Images, Labels

Index = Int[Tensor, " n"]


@dataclass(frozen=True)
class Wide:
    """Whole pictures of many shapes, one after the other; picture i is [3 H W] from `starts[i]` on.

    Starts and shapes stay on the CPU wherever the pixels are: to plan a batch is to ask for no number of the
    device.
    """

    pixels: UInt8[Tensor, " P"]
    starts: Int[Tensor, " B"]
    heights: Int[Tensor, " B"]
    widths: Int[Tensor, " B"]

    def take(self, index: Index) -> "Wide":
        """The pictures of these numbers; the pixels are shared, not copied."""
        return Wide(self.pixels, self.starts[index], self.heights[index], self.widths[index])

    def join(self, other: "Wide") -> "Wide":
        starts = torch.cat([self.starts, other.starts + len(self.pixels)])
        pixels = torch.cat([self.pixels, other.pixels])
        heights = torch.cat([self.heights, other.heights])
        return Wide(pixels, starts, heights, torch.cat([self.widths, other.widths]))

    def to(self, device: torch.device) -> "Wide":
        """These pictures with their pixels, and no others', on the device; shared if they are there."""
        return self if self.pixels.device == device else self.packed(device)

    def packed(self, device: torch.device) -> "Wide":
        """A copy of these pictures on the device, in their order and without gaps."""
        ends = self.sizes.cumsum(0)
        pixels = torch.empty(self.bytes, dtype=torch.uint8, device=device)
        moves = ends - self.sizes - self.starts  # pictures that move alike are copied at once
        runs = torch.unique_consecutive(moves, return_counts=True)[1].cumsum(0).tolist()
        for first, last in pairwise([0, *runs]):
            stop, move = int(ends[last - 1]), int(moves[first])
            start = int(self.starts[first]) + move
            pixels[start:stop] = self.pixels[start - move : stop - move]
        return Wide(pixels, ends - self.sizes, self.heights, self.widths)

    @property
    def sizes(self) -> Int[Tensor, " B"]:
        """Bytes of each picture."""
        return 3 * self.heights * self.widths

    @property
    def bytes(self) -> int:
        """Memory of the pixels of these pictures."""
        return int(self.sizes.sum())


@dataclass(frozen=True)
class Split:
    """Images at the model's input resolution; their labels, and the whole pictures, if there are any."""

    images: Images
    labels: Labels | None = None
    wide: Wide | None = None

    def __len__(self) -> int:
        return len(self.images)

    def first(self, count: int | None) -> "Split":
        """The first images of the split, shared, not copied; None: all."""
        labels = None if self.labels is None else self.labels[:count]
        wide = None if self.wide is None else self.wide.take(torch.arange(len(self))[:count])
        return Split(self.images[:count], labels, wide)

    def take(self, index: Index) -> "Split":
        """A copy of the images of these numbers."""
        labels = None if self.labels is None else self.labels[index]
        return Split(self.images[index], labels, None if self.wide is None else self.wide.take(index))

    def join(self, other: "Split") -> "Split":
        """A copy of both, one after the other; labels only if both have them."""
        labels = (
            torch.cat([self.labels, other.labels])
            if self.labels is not None and other.labels is not None
            else None
        )
        wide = self.wide.join(other.wide) if self.wide and other.wide else None
        return Split(torch.cat([self.images, other.images]), labels, wide)

    def to(self, device: torch.device) -> "Split":
        labels = None if self.labels is None else self.labels.to(device)
        return Split(self.images.to(device), labels, None if self.wide is None else self.wide.to(device))

    @property
    def bytes(self) -> int:
        """Memory of the pixels of the split's own images."""
        return self.images.numel() + (0 if self.wide is None else self.wide.bytes)


def split_sizes(count: int, fraction: float) -> tuple[int, int]:
    """(kept, held out): the kept part is floor(count * (1 - fraction)), in exact arithmetic.

    50,000 at 0.1 gives 45,000 and 5,000; 1,281,167 at 0.04 gives 1,229,920 and 51,247 (iGPT section 3.1).
    """
    kept = math.floor(count * (1 - Fraction(str(fraction))))
    return kept, count - kept


def balanced(labels: Labels, wanted: int | Fraction, draw: torch.Generator) -> Index:
    """Numbers of images with equally many of each class: `wanted` of each, or that share of each rounded up;
    sorted. Raises ValueError if a class has too few.
    """
    chosen = []
    for kind in sorted(set(labels.tolist())):
        members = torch.nonzero(labels == kind).flatten()
        count = wanted if isinstance(wanted, int) else math.ceil(wanted * len(members))
        if count > len(members):
            raise ValueError(
                f"{count} images of each class asked for; class {kind} has {len(members)} in train"
            )
        chosen.append(members[torch.randperm(len(members), generator=draw)[:count]])
    return torch.cat(chosen).sort().values


def hold_out(count: int, sizes: tuple[int, ...], seed: int) -> tuple[Index, ...]:
    """Numbers below `count`: those that stay, then one set of each size, by the seed's permutation; sorted.

    Raises ValueError if nothing would stay.
    """
    if sum(sizes) >= count:
        raise ValueError(
            f"{count} training images are too few to hold out {sum(sizes)} of them; "
            "give more, or pretrain with data.holdout=0"
        )
    order = torch.randperm(count, generator=generator(seed, "holdout"))
    *held, rest = torch.split(order, [*sizes, count - sum(sizes)])
    return tuple(part.sort().values for part in (rest, *held))
