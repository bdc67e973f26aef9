"""Source: the splits, labels and class names of a dataset, before any image is decoded."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

SplitName = Literal["train", "validation", "test"]
RawImage = Path | bytes | NDArray[Any]  # a file, an encoded image, or pixels [H W], [H W 3], [H W 4]

SPLIT_NAMES: tuple[SplitName, ...] = ("train", "validation", "test")

# Names of splits in folder and file names.
SPLIT_ALIASES: dict[str, SplitName] = {
    "train": "train",
    "validation": "validation",
    "valid": "validation",
    "val": "validation",
    "test": "test",
}

MAX_CLASSES = 100_000  # ImageNet-21k has 21,843
DEFAULT_HOLDOUT = 0.1  # iGPT section 3.1: CIFAR-10, CIFAR-100, STL-10; ImageNet holds out 0.04


@dataclass(frozen=True)
class SourceSplit:
    """One split of a source, in a fixed order."""

    num_images: int
    images: Callable[[], Iterator[RawImage]]
    image_name: Callable[[int], str]  # of image i, for messages
    labels: NDArray[np.int64] | None
    groups: NDArray[np.int64] | None = None  # what each image was made from; None: images are independent


@dataclass(frozen=True)
class Source:
    """The splits of a dataset; `content_hash` changes with any byte of its content."""

    name: str
    splits: Mapping[SplitName, SourceSplit]
    classes: tuple[str, ...]  # class names; empty without labels
    content_hash: str
    holdout: float = DEFAULT_HOLDOUT
    fixed: bool = False  # a published dataset, of which exact numbers of images are held out


def array_split(
    pixels: NDArray[Any],
    labels: NDArray[np.int64] | None,
    where: str,
    groups: NDArray[np.int64] | None = None,
) -> SourceSplit:
    """Return a split of images in memory. Raises ValueError if the numbers of images and labels differ."""
    if labels is not None and len(labels) != len(pixels):
        raise ValueError(f"{where} has {len(pixels)} images but {len(labels)} labels")
    return SourceSplit(len(pixels), lambda: iter(pixels), lambda i: f"{where} row {i}", labels, groups)


def labels_or_none(values: Iterable[int | None], where: str) -> NDArray[np.int64] | None:
    """Return class indices; None if all are missing (None or -1). Raises ValueError if only some are."""
    labels = np.array([-1 if value is None else value for value in values], dtype=np.int64)
    missing = int((labels < 0).sum())
    if missing == len(labels):
        return None
    if missing:
        raise ValueError(
            f"{where} has no label for {missing} of {len(labels)} images; label all of them or none"
        )
    return labels


def class_names(names: Iterable[str], splits: Mapping[SplitName, SourceSplit]) -> tuple[str, ...]:
    """Return the given names, or the class indices as names. Raises ValueError if a label has no name, or is
    `MAX_CLASSES` or more.
    """
    largest = [int(split.labels.max()) for split in splits.values() if split.labels is not None]
    if not largest:
        return ()
    if max(largest) >= MAX_CLASSES:
        raise ValueError(
            f"label {max(largest)} is too large; allowed: class indices from 0 to {MAX_CLASSES - 1:,}"
        )
    named = tuple(str(name) for name in names) or tuple(str(i) for i in range(max(largest) + 1))
    if max(largest) >= len(named):
        raise ValueError(f"label {max(largest)} has no class name; there are {len(named)} class names")
    return named
