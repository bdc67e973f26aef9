"""Convolution block: two 3x3 convolutions, each after a norm and before a GELU."""

from dataclasses import field
from typing import ClassVar

import torch
from einops import rearrange
from torch import nn
from torch.nn import functional as F

from isopix.core.registry import register
from isopix.core.types import Grid, Tokens
from isopix.model.blocks.base import Block, BlockSpec
from isopix.model.init import Glorot, InitScheme, InitTable
from isopix.model.kv_cache import Buffer, KVCache
from isopix.model.mlp import LayerNormSpec, NormSpec

# (row, column) offsets of the taps in raster order; the first five are the positions before the output's, and
# its own.
TAPS = [(row, col) for row in (-1, 0, 1) for col in (-1, 0, 1)]
CAUSAL_TAPS = TAPS[:5]


@register("convolution")
class ConvolutionSpec(BlockSpec):
    """U = X + GELU(Conv(LN X)); Y = U + GELU(Conv(LN U)); 3x3, zero padding (inductive biases of small
    isotropic nets, section 3.1).

    Causally, the 3x3 neighborhood is cut to the positions before the output's in raster order, and its own.
    """

    norm: NormSpec = field(default_factory=LayerNormSpec)
    """Norm before each convolution, and of the backbone's output."""

    def label(self) -> str:
        return f"two 3 × 3 convolutions, {self.norm.label()}, GELU"

    def build(self, grid: Grid, width: int, causal: bool) -> "ConvolutionBlock":
        return ConvolutionBlock(self, grid, width, causal)

    def flops(self, grid: Grid, width: int, causal: bool) -> int:
        """Return the FLOPs of a forward pass per image; taps beyond the border count too."""
        taps = len(CAUSAL_TAPS if causal else TAPS)
        return grid.positions * 2 * 2 * taps * width * width

    def init(self, scheme: InitScheme) -> InitTable:
        return {"conv?": Glorot()}


class ConvolutionBlock(Block):
    supports_cache: ClassVar[bool] = True

    def __init__(self, spec: ConvolutionSpec, grid: Grid, width: int, causal: bool):
        super().__init__()
        self.norm1 = spec.norm.build(width)
        self.conv1 = GridConv(grid, width, causal)
        self.norm2 = spec.norm.build(width)
        self.conv2 = GridConv(grid, width, causal)

    def forward(self, tokens: Tokens) -> Tokens:
        tokens = tokens + F.gelu(self.conv1(self.norm1(tokens)))
        return tokens + F.gelu(self.conv2(self.norm2(tokens)))

    def forward_cached(self, tokens: Tokens, cache: KVCache) -> Tokens:
        tokens = tokens + F.gelu(self.conv1.forward_cached(self.norm1(tokens), cache.first))
        return tokens + F.gelu(self.conv2.forward_cached(self.norm2(tokens), cache.second))


class GridConv(nn.Module):
    """3x3 over the grid of tokens, bias, zero padding; weight [D D taps], causally of earlier taps only."""

    def __init__(self, grid: Grid, width: int, causal: bool):
        super().__init__()
        self.grid, self.causal = grid, causal
        self.weight = nn.Parameter(torch.zeros(width, width, len(CAUSAL_TAPS if causal else TAPS)))
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, tokens: Tokens) -> Tokens:
        pixels = rearrange(tokens, "b (h w) d -> b d h w", h=self.grid.rows)
        if self.causal:  # two rows of taps; the sixth tap, right of the position, gets weight zero
            weight = rearrange(F.pad(self.weight, (0, 1)), "o i (h w) -> o i h w", w=3)
            output = F.conv2d(F.pad(pixels, (1, 1, 1, 0)), weight, self.bias)
        else:
            weight = rearrange(self.weight, "o i (h w) -> o i h w", w=3)
            output = F.conv2d(pixels, weight, self.bias, padding=1)
        return rearrange(output, "b d h w -> b (h w) d")

    def forward_cached(self, tokens: Tokens, buffer: Buffer) -> Tokens:
        """Return the outputs of `forward` at the next positions only."""
        begin = buffer.count
        past = buffer.extend(tokens)
        position = torch.arange(begin, buffer.count, device=tokens.device)[:, None]
        down, right = torch.tensor(CAUSAL_TAPS, device=tokens.device).unbind(1)
        row, col = position // self.grid.cols + down, position % self.grid.cols + right
        inside = (row >= 0) & (col >= 0) & (col < self.grid.cols)
        index = (row * self.grid.cols + col).clamp(min=0)
        neighbors = past[:, index].masked_fill(~inside[..., None], 0.0)
        return torch.einsum("bnti,oit->bno", neighbors, self.weight) + self.bias
