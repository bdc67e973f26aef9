"""Caches: what a block keeps of the positions that it has seen, so that painting looks at each once."""

from typing import Protocol, runtime_checkable

from jaxtyping import Float
from torch import Tensor

Rows = Float[Tensor, "B *heads _ size"]  # positions stand second to last


@runtime_checkable
class Cache(Protocol):
    """Whatever one block keeps; `Backbone` hands it back to the block's `step`."""

    def repeat(self, each: int) -> None:
        """Let every image go on `each` times, from the same past."""


class Seen:
    """Rows of the positions seen so far; room for all is taken with the first."""

    def __init__(self, positions: int):
        self.positions = positions
        self.count = 0

    def extend(self, rows: Rows) -> Rows:
        """Append new positions and return all that have been seen, the new ones included."""
        if self.count == 0:
            self.rows = rows.new_empty(*rows.shape[:-2], self.positions, rows.shape[-1])
        begin, self.count = self.count, self.count + rows.shape[-2]
        self.rows[..., begin : self.count, :] = rows
        return self.rows[..., : self.count, :]

    def repeat(self, each: int) -> None:
        """Let every image go on `each` times, from the same past."""
        self.rows = self.rows.repeat_interleave(each, 0)


class Pair:
    """Two of them, side by side: keys and values, or what enters each of two layers."""

    def __init__(self, first: Seen, second: Seen):
        self.first, self.second = first, second

    def repeat(self, each: int) -> None:
        """Let every image go on `each` times, from the same past."""
        self.first.repeat(each)
        self.second.repeat(each)
