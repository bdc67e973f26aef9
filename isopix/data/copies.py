"""Copies: held-out images of the content of others, which are left out; and groups of duplicates."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from jaxtyping import Int64
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from isopix.data.sources.base import SplitName
from isopix.data.splits import Hashes, Split

# What is left out of each split: copies of the images of the splits before it.
ORIGINALS: dict[SplitName, str] = {"validation": "training", "test": "training or validation"}

Groups = list[tuple[int, ...]]  # the indices of the images of each, ascending


def without_copies(split: Split, originals: Hashes) -> tuple[Split, int]:
    """Return the split without the images whose hashes are among those of `originals`, and their number."""
    if split.hashes is None:
        return split, 0
    kept = np.isin(split.hashes.numpy(), originals.numpy(), invert=True)
    count = int((~kept).sum())
    return (split.select(torch.from_numpy(kept.nonzero()[0])), count) if count else (split, 0)


def distinct_splits(
    splits: Mapping[SplitName, Split], dataset: str
) -> tuple[dict[SplitName, Split], dict[SplitName, int], list[str]]:
    """Leave out validation images that train has, and test images of either; return how many, and notes."""
    kept, left_out, notes = dict(splits), dict[SplitName, int](), list[str]()
    earlier = [splits["train"].hashes]
    for name, originals in ORIGINALS.items():
        split = splits[name]
        kept[name], count = without_copies(split, torch.cat([each for each in earlier if each is not None]))
        earlier.append(split.hashes)
        images = f"{len(split):,} {name} images of dataset '{dataset}' are"
        if count and count == len(split):
            raise ValueError(f"all {images} copies of {originals} images")
        if count:
            left_out[name] = count
            notes.append(f"{count:,} of {images} left out: they are copies of {originals} images")
    return kept, left_out, notes


def linked_groups(links: Int64[np.ndarray, "m 2"], count: int) -> Groups:
    """Return the groups of `count` images that pairs of indices link."""
    graph = coo_array((np.ones(len(links), np.int8), (links[:, 0], links[:, 1])), shape=(count, count))
    return equal_groups(connected_components(graph, directed=False)[1])


def equal_groups(keys: NDArray[np.integer[Any]]) -> Groups:
    """Return the groups of indices with the same key, such as the hash of an image's content."""
    order = np.argsort(keys, kind="stable")
    groups = np.split(order, np.flatnonzero(np.diff(keys[order])) + 1)
    return sorted(tuple(group.tolist()) for group in groups if len(group) > 1)
