"""Copies: held-out images whose content is that of other images, which are left out."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import torch

from isopix.data.sources.base import SplitName
from isopix.data.splits import Hashes, Split

# What is left out of each split: copies of the images of the splits before it.
ORIGINALS: dict[SplitName, str] = {"validation": "training", "test": "training or validation"}


class DistinctSplits(NamedTuple):
    """Splits without common images, the number of images left out of each, and notes that count them."""

    splits: dict[SplitName, Split]
    left_out: dict[SplitName, int]
    notes: tuple[str, ...]


def without_copies(split: Split, originals: Hashes) -> tuple[Split, int]:
    """Return the split without the images whose hashes are among those of `originals`, and their number."""
    if split.hashes is None:
        return split, 0
    kept = np.isin(split.hashes.numpy(), originals.numpy(), invert=True)
    count = int((~kept).sum())
    return (split.select(torch.from_numpy(kept.nonzero()[0])), count) if count else (split, 0)


def distinct_splits(splits: Mapping[SplitName, Split], dataset: str) -> DistinctSplits:
    """Return the splits without validation images that are copies of training images, and without test images
    that are copies of either.

    Raises ValueError if all validation or all test images are copies.
    """
    kept, left_out, notes = dict(splits), dict[SplitName, int](), list[str]()
    earlier = [splits["train"].hashes]
    for name, originals in ORIGINALS.items():
        split = splits[name]
        kept[name], count = without_copies(split, torch.cat([each for each in earlier if each is not None]))
        earlier.append(split.hashes)
        if not count:
            continue
        left_out[name] = count
        images = f"{len(split):,} {name} images of dataset '{dataset}' are"
        if count == len(split):
            raise ValueError(f"all {images} copies of {originals} images")
        notes.append(f"{count:,} of {images} left out: they are copies of {originals} images")
    return DistinctSplits(kept, left_out, tuple(notes))
