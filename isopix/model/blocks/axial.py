"""Axial block: attention along rows and an MLP, then along columns and an MLP."""

from collections.abc import Iterator
from dataclasses import field
from typing import ClassVar

import torch
from einops import rearrange

from isopix.core.choices import Size
from isopix.core.registry import register
from isopix.core.types import Grid, Tokens
from isopix.model.attention import AttentionAxis, AttentionWeights
from isopix.model.blocks.transformer import (
    Block,
    BlockSpec,
    TransformerBlock,
    TransformerSpec,
    attention_init,
)
from isopix.model.init import InitScheme, InitTable
from isopix.model.mlp import LayerNormSpec, MLPSpec, Norm, NormSpec, TwoLayerMLPSpec
from isopix.model.positions import PositionEmbeddingSpec


@register("axial")
class AxialSpec(BlockSpec):
    """Attention along each row and an MLP, then along each column and an MLP (ViT, appendix D.6)."""

    heads: Size = 8
    """Number of attention heads; must divide the width."""
    attention_bias: bool = True
    """Whether the attention matrices have biases."""
    norm: NormSpec = field(default_factory=LayerNormSpec)
    """Norm before each branch, and of the backbone's output."""
    mlp: MLPSpec = field(default_factory=TwoLayerMLPSpec)
    """The MLP after each attention."""

    def label(self) -> str:
        return self._half().label().replace("transformer", "axial attention", 1)

    def build(self, grid: Grid, width: int, causal: bool) -> "AxialBlock":
        if causal:
            raise ValueError("an axial block has no causal form; use block=transformer")
        half = self._half()
        return AxialBlock(grid, half.build(grid, width, False), half.build(grid, width, False))

    def flops(self, grid: Grid, width: int, causal: bool) -> int:
        row, col = Grid(1, grid.cols), Grid(grid.rows, 1)
        half = self._half()
        return grid.rows * half.flops(row, width, False) + grid.cols * half.flops(col, width, False)

    def init(self, scheme: InitScheme) -> InitTable:
        return attention_init(scheme, self.heads)

    def _half(self) -> TransformerSpec:
        return TransformerSpec(
            heads=self.heads, attention_bias=self.attention_bias, norm=self.norm, mlp=self.mlp
        )


class AxialBlock(Block):
    has_attention_weights: ClassVar[bool] = True

    def __init__(self, grid: Grid, rows: TransformerBlock, cols: TransformerBlock):
        super().__init__()
        self.grid, self.rows, self.cols = grid, rows, cols

    @property
    def first_norm(self) -> Norm:
        return self.rows.norm1

    def forward(self, tokens: Tokens) -> Tokens:
        height, width = self.grid
        tokens = self.rows(rearrange(tokens, "b (h w) d -> (b h) w d", h=height))
        tokens = self.cols(rearrange(tokens, "(b h) w d -> (b w) h d", h=height))
        return rearrange(tokens, "(b w) h d -> b (h w) d", w=width)

    def set_rotation(self, positions: PositionEmbeddingSpec, grid: Grid) -> None:
        self.rows.set_rotation(positions, Grid(1, grid.cols))
        self.cols.set_rotation(positions, Grid(grid.rows, 1))

    def attention_axes(self, grid: Grid) -> list[AttentionAxis]:
        return [AttentionAxis(Grid(1, grid.cols), "rows"), AttentionAxis(Grid(grid.rows, 1), "columns")]

    def attention_weights(self, tokens: Tokens) -> Iterator[AttentionWeights]:
        """Yield those of rows, then of columns, as weights of all positions, 0 beyond the row or column."""
        height, width = self.grid
        rows = rearrange(tokens, "b (h w) d -> (b h) w d", h=height)
        for weights in self.rows.attention_weights(rows):
            own = rearrange(weights, "(b h) a w v -> b a h w v", h=height)
            full = torch.einsum("bahwv,hg->bahwgv", own, torch.eye(height).to(own))
            yield rearrange(full, "b a h w g v -> b a (h w) (g v)")
        cols = rearrange(self.rows(rows), "(b h) w d -> (b w) h d", h=height)
        for weights in self.cols.attention_weights(cols):
            own = rearrange(weights, "(b w) a h g -> b a h w g", w=width)
            full = torch.einsum("bahwg,wv->bahwgv", own, torch.eye(width).to(own))
            yield rearrange(full, "b a h w g v -> b a (h w) (g v)")
