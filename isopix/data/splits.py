"""Splits: images with their labels, and which training images are held out."""

import math
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from isopix.core.random import generator
from isopix.core.text import count_of
from isopix.core.types import Groups, Images, Labels
from isopix.data.store import FileImages

Indices = Int[Tensor, " n"]
NO_LABEL = -1  # the label of an image without one
Hashes = Int[Tensor, " _"]  # 63-bit hashes of the content of images


@dataclass(frozen=True)
class Split:
    """Images at the model's input resolution; their labels, full-resolution images, and 63-bit hashes of
    their content, if available. `total` is the number that a part was selected from, None for a whole split.

    `rows` number the images of all splits of the source. Images of a group were made from one original: an
    interval resamples groups. None: every image is its own group.
    """

    images: Images | FileImages
    labels: Labels | None = None
    full_resolution: FileImages | None = None
    hashes: Hashes | None = None
    groups: Groups | None = None
    total: int | None = None
    rows: Indices | None = None

    def __len__(self) -> int:
        return len(self.images)

    @property
    def available(self) -> int:
        return len(self) if self.total is None else self.total

    @property
    def labeled(self) -> "Split":
        """The images that have a label; all if that is not known of any."""
        if self.labels is None or NO_LABEL not in self.labels:
            return self
        return self.select((self.labels != NO_LABEL).nonzero()[:, 0])

    @property
    def present_classes(self) -> set[int]:
        return set() if self.labels is None else {*self.labels.tolist()} - {NO_LABEL}

    def sample(self, count: int | None, seed: int = 0) -> "Split":
        """Return `count` random images in their order; a smaller sample is part of a larger one."""
        if count is None or count >= len(self):
            return self
        return self.select(self._order(seed)[:count].sort().values)

    def balanced_sample(self, count: int | None, seed: int = 0) -> "Split":
        """Return a sample with as many images of each class as possible; a plain one without labels."""
        if count is None or count >= len(self) or self.labels is None:
            return self.sample(count, seed)
        order = self._order(seed)
        by_rank = order[torch.argsort(_rank_in_class(self.labels[order]), stable=True)]
        return self.select(by_rank[:count].sort().values)

    def select(self, indices: Indices) -> "Split":
        images, full = self.images, self.full_resolution
        return Split(
            images=images[indices] if isinstance(images, Tensor) else images.select(indices),
            full_resolution=None if full is None else full.select(indices),
            total=self.available,
            **{name: values[indices] for name, values in self._tensors().items()},
        )

    def concat(self, other: "Split") -> "Split":
        """Return a copy of both splits, one after the other; labels and the like only if both have them."""
        if isinstance(self.images, FileImages) and isinstance(other.images, FileImages):
            images: Images | FileImages = self.images.concat(other.images)
        else:
            images = torch.cat([self.images[:], other.images[:]])
        full = None
        if self.full_resolution is not None and other.full_resolution is not None:
            full = self.full_resolution.concat(other.full_resolution)
        own, others = self._tensors(), other._tensors()
        both = {name: torch.cat([own[name], others[name]]) for name in own if name in others}
        return Split(images=images, full_resolution=full, total=self.available + other.available, **both)

    def to(self, device: torch.device) -> "Split":
        """Return the split with its pixels and labels on the device; encoded images stay on the disk."""
        images, full = self.images, self.full_resolution
        if isinstance(images, FileImages) and images.is_decoded and device.type != "cpu":
            images = images[:]
        return replace(
            self,
            images=images.to(device) if isinstance(images, Tensor) else images,
            labels=None if self.labels is None else self.labels.to(device),
            full_resolution=None if full is None else full.to(device),
        )

    @property
    def is_decoded(self) -> bool:
        """Whether the pixels are in memory, or mapped into it."""
        return not isinstance(self.images, FileImages) or self.images.is_decoded

    def decoding_only(self, indices: Indices) -> "Split":
        """Return the split of which, if its images are encoded, only those with these indices are decoded."""
        images, full = self.images, self.full_resolution
        if not isinstance(images, FileImages) or images.is_decoded:
            return self
        return replace(self, images=images.only(indices), full_resolution=full and full.only(indices))

    @property
    def nbytes(self) -> int:
        full = self.full_resolution
        return self.images.shape.numel() + (0 if full is None else int(full.sizes.sum()))

    def _order(self, seed: int) -> Indices:
        ids = torch.arange(len(self)) if self.hashes is None else self.hashes
        return torch.argsort(uniform_keys(ids, seed, "sample"), stable=True)

    def _tensors(self) -> dict[str, Tensor]:
        values = {"labels": self.labels, "hashes": self.hashes, "groups": self.groups, "rows": self.rows}
        return {name: each for name, each in values.items() if each is not None}


def count_or_fraction(value: int | str, name: str) -> int | Fraction:
    """Return a number of images of each class, `25`, or a fraction of them, `10%`; `name` is for errors."""
    text, parsed = str(value), Fraction(0)
    with suppress(ValueError, ZeroDivisionError):
        parsed = Fraction(text.removesuffix("%")) / 100 if text.endswith("%") else Fraction(int(text))
    if parsed <= 0 or (text.endswith("%") and parsed > 1):
        allowed = "1 or more images of each class, or a percentage of them, as in 10%"
        raise ValueError(f"{name} is {value!r}; allowed: {allowed}")
    return parsed if text.endswith("%") else int(parsed)


def balanced_subset(labels: Labels, per_class: int | Fraction, draw: torch.Generator) -> Indices:
    """Return sorted indices of a random subset of `per_class` images of each class, a fraction rounded up."""
    chosen = []
    for label in sorted({*labels.tolist()} - {NO_LABEL}):
        members = torch.nonzero(labels == label).flatten()
        count = per_class if isinstance(per_class, int) else math.ceil(per_class * len(members))
        if count > len(members):
            images = count_of(count, "image")
            raise ValueError(f"{images} per class requested; a class has only {len(members)} in train")
        chosen.append(members[torch.randperm(len(members), generator=draw)[:count]])
    return torch.cat(chosen).sort().values


def held_out_indices(
    hashes: Hashes, fractions: tuple[float, ...], seed: int, *, exact: bool = False
) -> tuple[Indices, ...]:
    """Return a random partition of n images: those kept, then one set for each fraction; each sorted.

    A function of an image's content and the seed decides, so that it stays in its set when others are added,
    and copies are together. With `exact` a set has ceil(count * fraction) images, in exact arithmetic. No set
    is empty.
    """
    keys, count = uniform_keys(hashes, seed, "holdout"), len(hashes)
    order = torch.argsort(keys, stable=True)
    numbers, sizes, bound, taken = keys[order], [], 0.0, 0
    for fraction in fractions:
        bound += fraction
        size = math.ceil(count * Fraction(str(fraction))) if exact else int((numbers < bound).sum()) - taken
        if size <= 0:  # an earlier set may have taken the image that followed its interval
            size = int((numbers[taken:] == numbers[taken : taken + 1]).sum()) if fraction else 0
        sizes.append(size)
        taken += size
    if taken >= count:
        problem = f"cannot hold out {taken} of {count_of(count, 'training image')}"
        raise ValueError(f"{problem}; give more, or pretrain with data.holdout=0")
    *held_out, kept = torch.split(order, [*sizes, count - taken])
    return tuple(part.sort().values for part in (kept, *held_out))


def uniform_keys(hashes: Hashes, seed: int, purpose: str) -> Float[Tensor, " _"]:
    """Return a number in [0, 1), of 53 bits, for each hash; independent for other seeds and purposes."""
    start = generator(seed, purpose).initial_seed()
    with np.errstate(over="ignore"):
        mixed = hashes.numpy().astype(np.uint64) ^ np.uint64(start)
        for shift, multiplier in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):  # SplitMix64
            mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(multiplier)
        mixed ^= mixed >> np.uint64(31)
    return torch.from_numpy((mixed >> np.uint64(11)).astype(np.float64) / 2**53)


def majority_accuracy(train: Labels, labels: Int[Tensor, " _"]) -> float:
    """Return the accuracy, for these labels, of always predicting the most frequent class of train."""
    return (labels == train.mode().values.to(labels.device)).double().mean().item()


def _rank_in_class(labels: Labels) -> Indices:
    ranks = torch.empty_like(labels)
    for label in sorted(set(labels.tolist())):
        members = labels == label
        ranks[members] = torch.arange(int(members.sum()))
    return ranks
