"""Masking: what of each position the blocks may see. (tokens, hidden) -> tokens; an objective chooses
which.
"""

from typing import Literal

import torch
from torch import nn

from isopix.core.config import spec
from isopix.core.types import Hidden, Tokens


@spec
class ShiftRight:
    """Position i receives what stood at i-1, the first a learned start vector: no position sees its own
    answer, and the last pixel is never an input (OpenAI's graph). `hidden` must be None.
    """

    kind: Literal["shift_right"] = "shift_right"

    def build(self, width: int) -> "Shift":
        return Shift(width)


@spec
class ZeroOut:
    """Hidden positions become zero vectors, before positions are added (iGPT section 2.2)."""

    kind: Literal["zero_out"] = "zero_out"

    def build(self, width: int) -> "Zero":
        return Zero()


class Shift(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.start = nn.Parameter(torch.zeros(width))

    def forward(self, tokens: Tokens, hidden: Hidden | None) -> Tokens:
        assert hidden is None, "a shifted sequence hides nothing else"
        start = self.start.to(tokens.dtype).expand(len(tokens), 1, -1)
        return torch.cat([start, tokens[:, :-1]], dim=1)


class Zero(nn.Module):
    def forward(self, tokens: Tokens, hidden: Hidden | None) -> Tokens:
        return tokens if hidden is None else tokens.masked_fill(hidden[..., None], 0.0)


Masking = ShiftRight | ZeroOut
