"""Source: what a reader finds and says of it, before any picture is decoded."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

SplitName = Literal["train", "validation", "test"]
Picture = Path | bytes | NDArray[Any]  # a file, an encoded image, or pixels [H W], [H W 3], [H W 4]

SPLITS: tuple[SplitName, ...] = ("train", "validation", "test")

# Words for a split in the names of folders and files; what they are called here.
SPLIT_WORDS: dict[str, SplitName] = {
    "train": "train",
    "validation": "validation",
    "valid": "validation",
    "val": "validation",
    "test": "test",
}

PAPER_HOLDOUT = 0.1  # iGPT section 3.1: CIFAR-10, CIFAR-100, STL-10; ImageNet holds out 0.04


@dataclass(frozen=True)
class Part:
    """One split as its source keeps it, in an order that never changes."""

    count: int
    pictures: Callable[[], Iterator[Picture]]
    name: Callable[[int], str]  # what picture i is called in a report
    labels: NDArray[np.int64] | None


@dataclass(frozen=True)
class Source:
    """The splits that a source has; `digest` changes with any byte of its content."""

    name: str
    parts: Mapping[SplitName, Part]
    classes: tuple[str, ...]  # empty without labels
    digest: str
    holdout: float = PAPER_HOLDOUT


def labels_or_none(values: Iterable[int | None], where: str) -> NDArray[np.int64] | None:
    """Class numbers, or None if every one is missing (hub test sets write -1). Raises ValueError if only some
    are."""
    labels = np.array([-1 if value is None else value for value in values], dtype=np.int64)
    missing = int((labels < 0).sum())
    if missing == len(labels):
        return None
    if missing:
        raise ValueError(
            f"{where} has no label for {missing} of {len(labels)} images; label all of them or none"
        )
    return labels


def class_names(names: Iterable[str], parts: Mapping[SplitName, Part]) -> tuple[str, ...]:
    """The given names, or the numbers themselves. Raises ValueError if a label has no name."""
    tops = [int(part.labels.max()) for part in parts.values() if part.labels is not None]
    if not tops:
        return ()
    named = tuple(str(name) for name in names) or tuple(str(i) for i in range(max(tops) + 1))
    if max(tops) >= len(named):
        raise ValueError(f"label {max(tops)} has no class name; there are {len(named)} names")
    return named


def digest_of(*pieces: bytes) -> str:
    """blake2b of pieces, each with its length, so that no two lists of pieces look the same."""
    state = hashlib.blake2b(digest_size=16)
    for piece in pieces:
        state.update(len(piece).to_bytes(8, "little"))
        state.update(piece)
    return state.hexdigest()


def digest_files(files: Mapping[str, Path]) -> dict[str, str]:
    """blake2b of each file's content by name; threads, because hashing leaves Python's lock."""
    with ThreadPoolExecutor() as pool:
        return dict(zip(files, pool.map(_digest_file, files.values()), strict=True))


def digest_tree(files: Mapping[str, Path]) -> str:
    """One digest of names and contents."""
    return digest_of(
        *(
            f"{name}/{digest}".encode("utf-8", "surrogateescape")
            for name, digest in digest_files(files).items()
        )
    )


def _digest_file(path: Path) -> str:
    if not path.is_file():
        return "not a regular file"
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
    except OSError as error:
        return f"unreadable: {error.strerror}"
