"""Caches of the earlier positions of a block, so that sampling computes each position once."""

from jaxtyping import Float
from torch import Tensor

Rows = Float[Tensor, "B *heads _ size"]  # positions stand second to last


class Buffer:
    """Rows of the positions so far; memory for all positions is allocated with the first."""

    def __init__(self, positions: int):
        self.positions = positions
        self.count = 0

    def extend(self, rows: Rows) -> Rows:
        """Append the rows of new positions and return those of all positions so far."""
        if self.count == 0:
            self.rows = rows.new_empty(*rows.shape[:-2], self.positions, rows.shape[-1])
        begin, self.count = self.count, self.count + rows.shape[-2]
        self.rows[..., begin : self.count, :] = rows
        return self.rows[..., : self.count, :]

    @property
    def num_bytes(self) -> int:
        """Memory of the rows of all positions."""
        return self.rows.nbytes if self.count else 0

    def repeat_batch(self, times: int) -> None:
        """Repeat each sequence of the batch, its copies next to one another."""
        self.rows = self.rows.repeat_interleave(times, 0)


class KVCache:
    """The cache of one block: keys and values of attention, or the inputs of two layers."""

    def __init__(self, first: Buffer, second: Buffer):
        self.first, self.second = first, second

    @property
    def num_bytes(self) -> int:
        """Memory of both buffers."""
        return self.first.num_bytes + self.second.num_bytes

    def repeat_batch(self, times: int) -> None:
        """Repeat each sequence of the batch, its copies next to one another."""
        self.first.repeat_batch(times)
        self.second.repeat_batch(times)
