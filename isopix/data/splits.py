"""Splits: images with their labels, and which training images are held out."""

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

import torch
from jaxtyping import Int, UInt8
from torch import Tensor

from isopix.core.random import generator
from isopix.core.types import Images, Labels

Indices = Int[Tensor, " n"]


@dataclass(frozen=True)
class FullResolution:
    """Whole images of different shapes, one after the other; image i is [3 H W] from `starts[i]` on.

    Starts and shapes stay on the CPU wherever the pixels are, so that planning a batch does not wait for the
    device.
    """

    pixels: UInt8[Tensor, " P"]
    starts: Int[Tensor, " B"]
    heights: Int[Tensor, " B"]
    widths: Int[Tensor, " B"]

    def select(self, indices: Indices) -> "FullResolution":
        """Return the images with these indices; the pixels are shared."""
        return FullResolution(self.pixels, self.starts[indices], self.heights[indices], self.widths[indices])

    def concat(self, other: "FullResolution") -> "FullResolution":
        """Return a copy of these images followed by the others."""
        starts = torch.cat([self.starts, other.starts + len(self.pixels)])
        pixels = torch.cat([self.pixels, other.pixels])
        heights = torch.cat([self.heights, other.heights])
        return FullResolution(pixels, starts, heights, torch.cat([self.widths, other.widths]))

    def to(self, device: torch.device) -> "FullResolution":
        """Return these images with their own pixels alone on the device; shared if they are there already."""
        return self if self.pixels.device == device else self.packed(device)

    def packed(self, device: torch.device) -> "FullResolution":
        """Return a copy of these images on the device, in their order and without gaps."""
        ends = self.sizes.cumsum(0)
        pixels = torch.empty(self.nbytes, dtype=torch.uint8, device=device)
        offsets = ends - self.sizes - self.starts  # images with the same offset are copied at once
        runs = torch.unique_consecutive(offsets, return_counts=True)[1].cumsum(0).tolist()
        for first, last in pairwise([0, *runs]):
            stop, offset = int(ends[last - 1]), int(offsets[first])
            start = int(self.starts[first]) + offset
            pixels[start:stop] = self.pixels[start - offset : stop - offset]
        return FullResolution(pixels, ends - self.sizes, self.heights, self.widths)

    @property
    def sizes(self) -> Int[Tensor, " B"]:
        """Bytes of each image."""
        return 3 * self.heights * self.widths

    @property
    def nbytes(self) -> int:
        """Bytes of all images."""
        return int(self.sizes.sum())


@dataclass(frozen=True)
class Split:
    """Images at the model's input resolution; their labels, and the full-resolution images, if available."""

    images: Images
    labels: Labels | None = None
    full_resolution: FullResolution | None = None

    def __len__(self) -> int:
        return len(self.images)

    def first(self, count: int | None) -> "Split":
        """Return the first images of the split, shared, not copied; all of them for None."""
        labels = None if self.labels is None else self.labels[:count]
        return Split(self.images[:count], labels, self._select_full(torch.arange(len(self))[:count]))

    def select(self, indices: Indices) -> "Split":
        """Return a copy of the images with these indices."""
        labels = None if self.labels is None else self.labels[indices]
        return Split(self.images[indices], labels, self._select_full(indices))

    def concat(self, other: "Split") -> "Split":
        """Return a copy of both splits, one after the other; with labels only if both have them."""
        labels = full = None
        if self.labels is not None and other.labels is not None:
            labels = torch.cat([self.labels, other.labels])
        if self.full_resolution and other.full_resolution:
            full = self.full_resolution.concat(other.full_resolution)
        return Split(torch.cat([self.images, other.images]), labels, full)

    def to(self, device: torch.device) -> "Split":
        """Return the split on the device."""
        labels = None if self.labels is None else self.labels.to(device)
        full = None if self.full_resolution is None else self.full_resolution.to(device)
        return Split(self.images.to(device), labels, full)

    @property
    def nbytes(self) -> int:
        """Bytes of the pixels."""
        return self.images.numel() + (0 if self.full_resolution is None else self.full_resolution.nbytes)

    def _select_full(self, indices: Indices) -> FullResolution | None:
        return None if self.full_resolution is None else self.full_resolution.select(indices)


def split_sizes(count: int, fraction: float) -> tuple[int, int]:
    """Return (kept, held out), where kept is floor(count * (1 - fraction)) in exact arithmetic.

    50,000 at 0.1 gives 45,000 and 5,000; 1,281,167 at 0.04 gives 1,229,920 and 51,247 (iGPT section 3.1).
    """
    kept = math.floor(count * (1 - Fraction(str(fraction))))
    return kept, count - kept


def balanced_subset(labels: Labels, per_class: int | Fraction, draw: torch.Generator) -> Indices:
    """Return sorted indices of a random subset with the same number of images of each class.

    `per_class` is that number, or a fraction of each class, rounded up. Raises ValueError if a class has too
    few images.
    """
    chosen = []
    for label in sorted(set(labels.tolist())):
        members = torch.nonzero(labels == label).flatten()
        count = per_class if isinstance(per_class, int) else math.ceil(per_class * len(members))
        if count > len(members):
            raise ValueError(f"{count} images per class requested; class {label} has {len(members)} in train")
        chosen.append(members[torch.randperm(len(members), generator=draw)[:count]])
    return torch.cat(chosen).sort().values


def held_out_indices(count: int, sizes: tuple[int, ...], seed: int) -> tuple[Indices, ...]:
    """Partition range(count) at random: kept, then each size; sorted. Raises ValueError if none is kept."""
    if sum(sizes) >= count:
        raise ValueError(
            f"{count} training images are too few to hold out {sum(sizes)} of them; "
            "give more, or pretrain with data.holdout=0"
        )
    order = torch.randperm(count, generator=generator(seed, "holdout"))
    *held_out, kept = torch.split(order, [*sizes, count - sum(sizes)])
    return tuple(part.sort().values for part in (kept, *held_out))
