"""Shards: the files that a dataset is divided into, and which of them a range of images is in."""

from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import NamedTuple

import numpy as np


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
