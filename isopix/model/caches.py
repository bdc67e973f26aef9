"""Caches of decoding: what a block keeps of the positions so far."""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

Rows = Float[Tensor, "B *heads _ size"]  # positions stand second to last


class Buffer:
    """Rows so far, in `dtype` or as they come; memory for all positions is allocated with the first."""

    def __init__(self, positions: int, dtype: torch.dtype | None = None):
        self.positions, self.dtype, self.count = positions, dtype, 0

    def extend(self, rows: Rows) -> Rows:
        """Append the rows of new positions and return those of all positions so far."""
        if self.count == 0:
            shape = (*rows.shape[:-2], self.positions, rows.shape[-1])
            self.all_rows = rows.new_empty(shape, dtype=self.dtype or rows.dtype)
        begin, self.count = self.count, self.count + rows.shape[-2]
        self.all_rows[..., begin : self.count, :] = rows
        return self.rows

    @property
    def rows(self) -> Rows:
        return self.all_rows[..., : self.count, :]

    @property
    def num_bytes(self) -> int:
        return self.all_rows.nbytes if self.count else 0

    def repeat_batch(self, times: int) -> None:
        if self.count:
            self.all_rows = self.all_rows.repeat_interleave(times, 0)


class KVCache:
    """The cache of one block: keys and values of attention, or the inputs of two layers."""

    def __init__(self, first: Buffer, second: Buffer):
        self.first, self.second = first, second

    @property
    def num_bytes(self) -> int:
        return self.first.num_bytes + self.second.num_bytes

    def repeat_batch(self, times: int) -> None:
        """Repeat each sequence of the batch, its copies next to one another."""
        self.first.repeat_batch(times)
        self.second.repeat_batch(times)

    def keep_in(self, dtype: torch.dtype) -> None:
        """Round what is kept to this type, if the block can read it; call it before the first position."""


class SharedRows(NamedTuple):
    """Keys and values of prompts [P heads M size], each continued by B / P sequences."""

    keys: Rows
    values: Rows

    def last(self, count: int) -> "SharedRows | None":
        """Return the last positions, at most `count`; None if that is not positive."""
        return SharedRows(*(rows[..., -count:, :] for rows in self)) if count > 0 else None


class AttentionCache(KVCache):
    """Keys and values; those of a prompt are kept once for all sequences that continue it."""

    def __init__(self, positions: int):
        super().__init__(Buffer(positions), Buffer(positions))
        self.shared: SharedRows | None = None

    @property
    def num_positions(self) -> int:
        return self.first.count + (0 if self.shared is None else self.shared.keys.shape[2])

    def keep_in(self, dtype: torch.dtype) -> None:
        self.first.dtype = self.second.dtype = dtype

    def repeat_batch(self, times: int) -> None:
        """Have `times` sequences continue each prompt, next to one another."""
        keys, values = self.first.rows, self.second.rows
        if times == 1:
            return
        # A CPU multiplies faster in float32, and reads the prompt once for all sequences.
        kept = torch.float32 if keys.is_cpu and keys.dtype == torch.bfloat16 else keys.dtype
        rows = (each.to(kept, memory_format=torch.contiguous_format) for each in (keys, values))
        self.shared = SharedRows(*rows)
        left, dtype = self.first.positions - self.first.count, self.first.dtype
        self.first, self.second = Buffer(left, dtype), Buffer(left, dtype)
