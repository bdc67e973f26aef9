"""Copies: held-out images of the content of others, which are left out; and duplicates, also near ones."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from jaxtyping import Float32, Int64, UInt8
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from isopix.core.progress import track
from isopix.data.sources.base import SplitName
from isopix.data.splits import Hashes, Split

# What is left out of each split: copies of the images of the splits before it.
ORIGINALS: dict[SplitName, str] = {"validation": "training", "test": "training or validation"}

MAX_DIFFERENCE = 8.0  # levels of 0..255 between two thumbnails, root mean square
MAX_RELATIVE = 0.2  # of the standard deviation of the flatter one: all images of a gray wall are similar
BLOCK = 128  # images that are compared with all others of their brightness at a time

Rows = NDArray[np.int64]
Groups = list[tuple[int, ...]]  # the indices of the images of each, ascending
Points = Float32[np.ndarray, "n D"]


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


def exact_duplicates(hashes: Rows) -> Groups:
    """Return the groups of images with the same hash of their content."""
    return _groups(np.arange(len(hashes)), hashes)


def near_duplicates(hashes: Rows, thumbnails: UInt8[np.ndarray, "n 8 8 3"]) -> Groups:
    """Return groups of images of different content whose thumbnails are almost equal.

    That is a root mean square difference of at most 8 levels of 0..255 and a fifth of the standard deviation
    of the flatter one. An image joins the group of the most similar one before it by brightness.
    """
    if not len(hashes):
        return []
    _, first, content = np.unique(hashes, return_index=True, return_inverse=True)
    links = _links(thumbnails[first].reshape(len(first), -1))
    component = _components(links, len(first))[content]
    linked = np.isin(content, links)
    return _groups(np.flatnonzero(linked), component[linked])


def linked_groups(links: Int64[np.ndarray, "m 2"], count: int) -> Groups:
    """Return the groups of `count` images that pairs of indices link."""
    return _groups(np.arange(count), _components(links, count))


def _components(links: Int64[np.ndarray, "m 2"], count: int) -> NDArray[np.integer[Any]]:
    graph = coo_array((np.ones(len(links), np.int8), (links[:, 0], links[:, 1])), shape=(count, count))
    return connected_components(graph, directed=False)[1]


def _groups(images: Rows, keys: NDArray[np.integer[Any]]) -> Groups:
    order = np.argsort(keys, kind="stable")
    groups = np.split(images[order], np.flatnonzero(np.diff(keys[order])) + 1)
    return sorted(tuple(group.tolist()) for group in groups if len(group) > 1)


def _links(pixels: UInt8[np.ndarray, "n D"]) -> NDArray[np.int64]:
    """Return pairs [m 2] of almost equal rows: each with the most similar one before it by brightness."""
    mean = pixels.mean(1)
    order = np.argsort(mean, kind="stable")
    points, mean = pixels[order].astype(np.float32) - 127.5, mean[order]
    limits = np.minimum(MAX_DIFFERENCE, MAX_RELATIVE * points.std(1))
    found = []
    with track("comparing images", len(points)) as count:
        for start in range(0, len(points), BLOCK):
            low = int(np.searchsorted(mean, mean[start] - MAX_DIFFERENCE))
            stop = min(start + BLOCK, len(points))
            rows, nearest = _nearest_before(points, limits, slice(start, stop), low)
            found.append(np.stack([order[rows], order[nearest]], axis=1))
            count(stop)
    return np.concatenate(found)


def _nearest_before(points: Points, limits: NDArray[np.float32], block: slice, low: int) -> tuple[Rows, Rows]:
    mine, others = points[block], points[low : block.stop]
    squares = (others**2).sum(1) + (mine**2).sum(1)[:, None] - 2 * mine @ others.T
    allowed = np.minimum(limits[block][:, None], limits[low : block.stop])
    rows = np.arange(block.start, block.stop)
    ahead = np.arange(low, block.stop) >= rows[:, None]
    squares[ahead | (squares > points.shape[1] * allowed**2)] = np.inf
    nearest = squares.argmin(1)
    near = np.isfinite(squares[np.arange(len(rows)), nearest])
    return rows[near], low + nearest[near]
