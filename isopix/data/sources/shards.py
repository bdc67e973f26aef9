"""Shards: the files that a dataset is divided into, and which of them a range of images is in."""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

import numpy as np

from isopix.data.sources.base import SPLIT_ALIASES, SplitName

SPLIT_PREFIX = re.compile(rf"({'|'.join(SPLIT_ALIASES)})(?=[-_.]|$)")


def files_by_split(root: Path, files: Sequence[Path], suffix: str) -> dict[SplitName, list[Path]]:
    """Return the files of each split, whose name their own, or that of a folder below the root, begins with.

    If some name a split, the others are left out; if none does, all are train, and so is the root if it is a
    file. Raises ValueError if some name a split, and none is train.
    """
    if not root.is_dir():
        return {"train": [root]}
    found: dict[SplitName, list[Path]] = {}
    unnamed: list[Path] = []
    for file in files:
        words = [SPLIT_PREFIX.match(piece) for piece in file.relative_to(root).parts]
        word = next((match[1] for match in words if match), None)
        (found.setdefault(SPLIT_ALIASES[word], []) if word else unnamed).append(file)
    found = found or {"train": unnamed}
    if "train" not in found:
        raise ValueError(f"folder {root} has no train*.{suffix}, only {', '.join(sorted(found))}")
    return found


class RowRange(NamedTuple):
    """Rows `start` to `stop - 1` of a shard."""

    shard: int
    start: int
    stop: int


class ShardIndex:
    """The numbers of rows of shards that are read one after the other."""

    def __init__(self, num_rows: Iterable[int]):
        self.ends = np.fromiter(accumulate(num_rows), np.int64)

    def __len__(self) -> int:
        return int(self.ends[-1]) if len(self.ends) else 0

    def row(self, i: int) -> tuple[int, int]:
        """Return the shard that row i is in, and its row there."""
        shard = int(np.searchsorted(self.ends, i, side="right"))
        return shard, i - self._start(shard)

    def ranges(self, start: int, stop: int) -> Iterator[RowRange]:
        """Yield the parts of rows `start` to `stop - 1`, shard by shard."""
        shard = self.row(start)[0]
        while start < stop:
            first, end = self._start(shard), min(stop, int(self.ends[shard]))
            if end > start:
                yield RowRange(shard, start - first, end - first)
            start, shard = max(start, end), shard + 1

    def _start(self, shard: int) -> int:
        return int(self.ends[shard - 1]) if shard else 0
