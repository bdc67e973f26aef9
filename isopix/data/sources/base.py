"""Source: the splits, labels and class names of a dataset, before any image is decoded."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isopix.core import choices

SplitName = choices.SplitName
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
MAX_LABEL = 2**63 - 1
MAX_INDEX = 1_000  # unnamed labels up to here are class indices, also if some are missing; above it, ids
DEFAULT_HOLDOUT = 0.1  # iGPT section 3.1: CIFAR-10, CIFAR-100, STL-10; ImageNet holds out 0.04


@dataclass(frozen=True)
class SourceSplit:
    """One split of a source, in a fixed order."""

    num_images: int
    read_range: Callable[[int, int], Iterator[RawImage]]  # what `images` yields for a start and a stop
    image_name: Callable[[int], str]  # of image i, for messages
    labels: NDArray[np.int64] | None
    groups: NDArray[np.int64] | None = None  # what each image was made from; None: images are independent

    def images(self, start: int = 0, stop: int | None = None) -> Iterator[RawImage]:
        """Yield the images from index `start` to `stop - 1`, without reading those before; all by default."""
        stop = self.num_images if stop is None else stop
        if not 0 <= start <= stop <= self.num_images:
            raise ValueError(f"images {start} to {stop} are asked for; there are {self.num_images}")
        return self.read_range(start, stop)


@dataclass(frozen=True)
class Source:
    """The splits of a dataset; `content_hash` changes with any byte of its content."""

    name: str
    splits: Mapping[SplitName, SourceSplit]
    classes: tuple[str, ...]  # class names; empty without labels
    content_hash: str
    holdout: float = DEFAULT_HOLDOUT
    fixed: bool = False  # a published dataset, of which exact numbers of images are held out
    label_note: str = ""  # how labels were mapped to class indices, if they were


def array_split(
    pixels: NDArray[Any],
    labels: NDArray[np.int64] | None,
    where: str,
    groups: NDArray[np.int64] | None = None,
) -> SourceSplit:
    """Return a split of images in memory. Raises ValueError if the numbers of images and labels differ."""
    if labels is not None and len(labels) != len(pixels):
        raise ValueError(f"{where} has {len(pixels)} images but {len(labels)} labels")
    return SourceSplit(
        num_images=len(pixels),
        read_range=lambda start, stop: iter(pixels[start:stop]),
        image_name=lambda i: f"{where} row {i}",
        labels=labels,
        groups=groups,
    )


def labels_or_none(
    values: Iterable[int | None] | NDArray[np.integer[Any]], where: str
) -> NDArray[np.int64] | None:
    """Return labels; None if all are missing (None or -1).

    Raises ValueError if only some are missing, and for labels below -1 or too large for int64.
    """
    given = values if isinstance(values, np.ndarray) else [-1 if value is None else value for value in values]
    try:
        labels = np.array(given, dtype=np.int64)
    except OverflowError:
        raise ValueError(f"{where} has labels above {MAX_LABEL}; allowed: integers of 64 bits") from None
    if not len(labels):
        return None
    if isinstance(values, np.ndarray) and int(values.max()) > MAX_LABEL:  # NumPy wraps unsigned integers
        raise ValueError(f"{where} has labels above {MAX_LABEL}; allowed: integers of 64 bits")
    if labels.min() < -1:
        raise ValueError(f"{where} has label {labels.min()}; allowed: 0 or more, and -1 for no label")
    missing = int((labels < 0).sum())
    if missing == len(labels):
        return None
    if missing:
        raise ValueError(
            f"{where} has no label for {missing} of {len(labels)} images; label all of them or none"
        )
    return labels


def with_class_names(source: Source, names: Iterable[str] = ()) -> Source:
    """Return the source with these class names, or, without any, with its labels as names.

    Unnamed labels above `MAX_INDEX` are identifiers: the distinct labels of all splits in ascending order
    become the classes 0, 1, ... Raises ValueError if a label has no name, and for more than `MAX_CLASSES`.
    """
    labeled = {name: split.labels for name, split in source.splits.items() if split.labels is not None}
    if not labeled:
        return source
    named, largest = tuple(map(str, names)), max(int(labels.max()) for labels in labeled.values())
    _check_number(len(named))
    if named and largest >= len(named):
        raise ValueError(f"label {largest} has no class name; there are {len(named)} class names")
    if named or largest <= MAX_INDEX:
        return replace(source, classes=named or tuple(map(str, range(largest + 1))))
    ids = np.unique(np.concatenate([np.unique(labels) for labels in labeled.values()]))
    _check_number(len(ids))
    mapped = {
        name: replace(source.splits[name], labels=np.searchsorted(ids, labels))
        for name, labels in labeled.items()
    }
    note = (
        f"labels of dataset '{source.name}' are {len(ids):,} different numbers from {ids[0]} to {largest}; "
        "each is a class of that name"
    )
    return replace(
        source,
        splits={**source.splits, **mapped},
        classes=tuple(map(str, ids.tolist())),
        label_note=note if len(ids) <= largest else "",
    )


def _check_number(classes: int) -> None:
    if classes > MAX_CLASSES:
        raise ValueError(f"the labels are of {classes:,} different classes; allowed: up to {MAX_CLASSES:,}")
