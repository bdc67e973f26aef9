"""Convolution block: two 3x3 convolutions, each after a norm and before a GELU."""

from dataclasses import field

import torch
from einops import rearrange
from torch import nn
from torch.nn import functional as F

from isopix.core.registry import register
from isopix.core.types import Grid, Tokens
from isopix.model.blocks.base import BlockSpec
from isopix.model.kv_cache import Pair, Seen
from isopix.model.norms import Layer, NormSpec

# (row, column) of each tap from the position that it answers for, in raster order. What stands before a
# position, and the position itself, are the first five.
TAPS = [(row, col) for row in (-1, 0, 1) for col in (-1, 0, 1)]
CAUSAL_TAPS = TAPS[:5]


@register("convolution")
class Convolution(BlockSpec):
    """U = X + GELU(Conv(LN X)); Y = U + GELU(Conv(LN U)); 3x3, zeros beyond the border (inductive biases of
    small isotropic nets, section 3).

    Causally, a position sees of its 3x3 those before it in raster order, and itself.
    """

    norm: NormSpec = field(default_factory=Layer)

    @property
    def anywhere(self) -> bool:
        """Whether it takes any set of positions, instead of the whole grid in raster order."""
        return False

    def build(self, grid: Grid, width: int, causal: bool) -> "ConvolutionBlock":
        """One block."""
        return ConvolutionBlock(self, grid, width, causal)

    def flops(self, grid: Grid, width: int, causal: bool) -> int:
        """Multiply-adds counted as two, forward, one image; taps beyond the border count too."""
        taps = len(CAUSAL_TAPS if causal else TAPS)
        return grid.positions * 2 * 2 * taps * width * width

    def label(self) -> str:
        return f"two 3 × 3 convolutions, {self.norm.label()}, GELU"


class ConvolutionBlock(nn.Module):
    def __init__(self, spec: Convolution, grid: Grid, width: int, causal: bool):
        super().__init__()
        self.norm1 = spec.norm.build(width)
        self.conv1 = Conv(grid, width, causal)
        self.norm2 = spec.norm.build(width)
        self.conv2 = Conv(grid, width, causal)

    def forward(self, tokens: Tokens) -> Tokens:
        tokens = tokens + F.gelu(self.conv1(self.norm1(tokens)))
        return tokens + F.gelu(self.conv2(self.norm2(tokens)))

    def cache(self, positions: int) -> Pair:
        return Pair(Seen(positions), Seen(positions))

    def step(self, tokens: Tokens, cache: Pair) -> Tokens:
        tokens = tokens + F.gelu(self.conv1.step(self.norm1(tokens), cache.first))
        return tokens + F.gelu(self.conv2.step(self.norm2(tokens), cache.second))


class Conv(nn.Module):
    """3x3, width to width, stride 1, with a bias and zeros beyond the border; weight [D D taps].

    The causal form has no weights for what it may not see.
    """

    def __init__(self, grid: Grid, width: int, causal: bool):
        super().__init__()
        self.grid, self.causal = grid, causal
        self.weight = nn.Parameter(torch.zeros(width, width, len(CAUSAL_TAPS if causal else TAPS)))
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, tokens: Tokens) -> Tokens:
        pixels = rearrange(tokens, "b (h w) d -> b d h w", h=self.grid.rows)
        if self.causal:  # the sixth of two rows of taps stands right of the position: it weighs nothing
            weight = rearrange(F.pad(self.weight, (0, 1)), "o i (h w) -> o i h w", w=3)
            answer = F.conv2d(F.pad(pixels, (1, 1, 1, 0)), weight, self.bias)
        else:
            weight = rearrange(self.weight, "o i (h w) -> o i h w", w=3)
            answer = F.conv2d(pixels, weight, self.bias, padding=1)
        return rearrange(answer, "b d h w -> b (h w) d")

    def step(self, tokens: Tokens, seen: Seen) -> Tokens:
        """The same answers for the next positions only."""
        begin = seen.count
        past = seen.extend(tokens)
        place = torch.arange(begin, seen.count, device=tokens.device)[:, None]
        down, right = torch.tensor(CAUSAL_TAPS, device=tokens.device).unbind(1)
        row, col = place // self.grid.cols + down, place % self.grid.cols + right
        inside = (row >= 0) & (col >= 0) & (col < self.grid.cols)
        index = (row * self.grid.cols + col).clamp(min=0)
        # What lies beyond the border is read somewhere and weighs nothing.
        around = past[:, index].masked_fill(~inside[..., None], 0.0)
        return torch.einsum("bnti,oit->bno", around, self.weight) + self.bias
