"""Position embeddings: what tells a block where a token stands."""

from typing import Literal

import torch
from torch import nn

from isopix.core.config import spec
from isopix.core.types import Grid, Tokens


@spec
class Learned:
    """One free vector for each position, independent of its neighbours' (iGPT section 2.2)."""

    kind: Literal["learned"] = "learned"

    def build(self, grid: Grid, width: int) -> "LearnedPositions":
        return LearnedPositions(grid, width)


class LearnedPositions(nn.Module):
    def __init__(self, grid: Grid, width: int):
        super().__init__()
        self.table = nn.Parameter(torch.zeros(grid.positions, width))

    def forward(self, tokens: Tokens, start: int = 0) -> Tokens:
        """Add the vectors of the positions from `start` on."""
        return tokens + self.table[start : start + tokens.shape[1]]


@spec
class NoPositions:
    """Nothing is added: what a block knows of places, it knows by itself."""

    kind: Literal["none"] = "none"

    def build(self, grid: Grid, width: int) -> "Unplaced":
        return Unplaced()


class Unplaced(nn.Module):
    def forward(self, tokens: Tokens, start: int = 0) -> Tokens:
        """The tokens as they are."""
        return tokens


Positions = Learned | NoPositions
