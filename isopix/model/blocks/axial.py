"""Axial block: a transformer block along each row, then one along each column."""

from collections.abc import Iterator
from dataclasses import field

import torch
from einops import rearrange
from torch import nn

from isopix.core.registry import register
from isopix.core.types import Grid, Tokens
from isopix.model.attention import Span, Weights
from isopix.model.blocks.base import BlockSpec
from isopix.model.blocks.transformer import Transformer, TransformerBlock
from isopix.model.mlp import Activation
from isopix.model.norms import Layer, NormSpec


@register("axial")
class Axial(BlockSpec):
    """Attention along the row of each position and an MLP, then along its column and another MLP (ViT,
    appendix D.6).

    It has no causal form: a row and a column together do not reach all that stands before a position.
    """

    heads: int = 8
    expansion: int = 4
    norm: NormSpec = field(default_factory=Layer)
    activation: Activation = "gelu"
    bias: bool = True

    def __post_init__(self) -> None:
        self._half()  # raises ValueError for what no transformer block can be

    @property
    def anywhere(self) -> bool:
        """Whether it takes any set of positions, instead of the whole grid in raster order."""
        return False

    def build(self, grid: Grid, width: int, causal: bool) -> "AxialBlock":
        """One block. Raises ValueError if it is to be causal, or if heads do not divide width."""
        if causal:
            raise ValueError("an axial block has no causal form; take block=transformer")
        return AxialBlock(
            grid, self._half().build(grid, width, False), self._half().build(grid, width, False)
        )

    def flops(self, grid: Grid, width: int, causal: bool) -> int:
        """Multiply-adds counted as two, forward, one image."""
        row, col = Grid(1, grid.cols), Grid(grid.rows, 1)
        half = self._half()
        return grid.rows * half.flops(row, width, False) + grid.cols * half.flops(col, width, False)

    def _half(self) -> Transformer:
        return Transformer(
            heads=self.heads,
            expansion=self.expansion,
            norm=self.norm,
            activation=self.activation,
            bias=self.bias,
        )

    def label(self) -> str:
        return self._half().label().replace("transformer", "axial attention", 1)


class AxialBlock(nn.Module):
    def __init__(self, grid: Grid, rows: TransformerBlock, cols: TransformerBlock):
        super().__init__()
        self.grid, self.rows, self.cols = grid, rows, cols

    @property
    def norm1(self) -> nn.Module:
        """The first norm, which the probes read."""
        return self.rows.norm1

    def forward(self, tokens: Tokens) -> Tokens:
        height, width = self.grid
        tokens = self.rows(rearrange(tokens, "b (h w) d -> (b h) w d", h=height))
        tokens = self.cols(rearrange(tokens, "(b h) w d -> (b w) h d", h=height))
        return rearrange(tokens, "(b w) h d -> b (h w) d", w=width)

    def spans(self, grid: Grid) -> list[Span]:
        """The own row, then the own column."""
        return [Span(Grid(1, grid.cols), "rows"), Span(Grid(grid.rows, 1), "columns")]

    def weights(self, tokens: Tokens) -> Iterator[Weights]:
        """Of its rows, then of its columns, as weights of all positions, 0 beyond the own row or column."""
        height, width = self.grid
        rows = rearrange(tokens, "b (h w) d -> (b h) w d", h=height)
        for along in self.rows.weights(rows):
            own = rearrange(along, "(b h) a w v -> b a h w v", h=height)
            everywhere = torch.einsum("bahwv,hg->bahwgv", own, torch.eye(height).to(own))
            yield rearrange(everywhere, "b a h w g v -> b a (h w) (g v)")
        cols = rearrange(self.rows(rows), "(b h) w d -> (b w) h d", h=height)
        for along in self.cols.weights(cols):
            own = rearrange(along, "(b w) a h g -> b a h w g", w=width)
            everywhere = torch.einsum("bahwg,wv->bahwgv", own, torch.eye(width).to(own))
            yield rearrange(everywhere, "b a h w g v -> b a (h w) (g v)")
