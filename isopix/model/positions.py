"""Position embeddings: what tells a block where a token stands."""

import abc

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

from isopix.core.registry import Part, register
from isopix.core.types import Grid, PositionIndices, Tokens

Vectors = Float[Tensor, "positions D"]


class PositionsSpec(Part, noun="positions"):
    """Settings of position embeddings."""

    @abc.abstractmethod
    def build(self, grid: Grid, width: int) -> nn.Module:
        """Return the module that adds the vectors of positions to tokens."""


@register("learned")
class Learned(PositionsSpec):
    """One free vector for each position, independent of its neighbours' (iGPT section 2.2)."""

    def build(self, grid: Grid, width: int) -> "LearnedPositions":
        return LearnedPositions(grid, width)

    def label(self) -> str:
        return "learned position embeddings"


class LearnedPositions(nn.Module):
    def __init__(self, grid: Grid, width: int):
        super().__init__()
        self.table = nn.Parameter(torch.zeros(grid.positions, width))

    def forward(self, tokens: Tokens, start: int = 0) -> Tokens:
        """Add the vectors of the positions from `start` on."""
        return tokens + self.table[start : start + tokens.shape[1]]

    def at(self, tokens: Tokens, places: PositionIndices) -> Tokens:
        """Add the vectors of these places."""
        return tokens + self.table[places]


@register("factorised")
class Factorised(PositionsSpec):
    """One free vector for each row and one for each column; a position has the sum of its two (PatchFormer
    section 2.1).
    """

    def build(self, grid: Grid, width: int) -> "FactorisedPositions":
        return FactorisedPositions(grid, width)

    def label(self) -> str:
        return "learned row and column embeddings"


class FactorisedPositions(nn.Module):
    def __init__(self, grid: Grid, width: int):
        super().__init__()
        self.rows = nn.Parameter(torch.zeros(grid.rows, width))
        self.cols = nn.Parameter(torch.zeros(grid.cols, width))

    def vectors(self) -> Vectors:
        """Those of all positions."""
        return rearrange(self.rows[:, None] + self.cols, "h w d -> (h w) d")

    def forward(self, tokens: Tokens, start: int = 0) -> Tokens:
        """Add the vectors of the positions from `start` on."""
        return tokens + self.vectors()[start : start + tokens.shape[1]]

    def at(self, tokens: Tokens, places: PositionIndices) -> Tokens:
        """Add the vectors of these places."""
        return tokens + self.vectors()[places]


@register("none")
class NoPositions(PositionsSpec):
    """Nothing is added: what a block knows of places, it knows by itself."""

    def build(self, grid: Grid, width: int) -> "Unplaced":
        return Unplaced()

    def label(self) -> str:
        return "no position embeddings"


class Unplaced(nn.Module):
    def forward(self, tokens: Tokens, start: int = 0) -> Tokens:
        """The tokens as they are."""
        return tokens

    def at(self, tokens: Tokens, places: PositionIndices) -> Tokens:
        """The tokens as they are."""
        return tokens
