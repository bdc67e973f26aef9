"""Convolutions: a block of two 3x3 convolutions over the grid, and layers over the pixels of one patch."""

import math
from collections.abc import Callable
from dataclasses import field
from typing import ClassVar

import torch
from einops import rearrange, repeat
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from isopix.core.registry import register
from isopix.core.types import Grid, Tokens
from isopix.model.blocks.transformer import Block, BlockSpec
from isopix.model.caches import Buffer, KVCache
from isopix.model.init import Glorot, InitScheme, InitTable
from isopix.model.mlp import LayerNormSpec, NormSpec

# (row, column) offsets of the taps in raster order; the first five are the positions before the output's, and
# its own.
TAPS = [(row, col) for row in (-1, 0, 1) for col in (-1, 0, 1)]
CAUSAL_TAPS = TAPS[:5]


@register("convolution")
class ConvolutionSpec(BlockSpec):
    """U = X + GELU(Conv(LN X)); Y = U + GELU(Conv(LN U)); 3x3, zero padding (inductive biases of small
    isotropic nets, section 3.1); causally, only of positions up to its own in raster order.
    """

    norm: NormSpec = field(default_factory=LayerNormSpec)
    """Norm before each convolution, and of the backbone's output."""

    def label(self) -> str:
        return f"two 3 × 3 convolutions, {self.norm.label()}, GELU"

    def build(self, grid: Grid, width: int, causal: bool) -> "ConvolutionBlock":
        return ConvolutionBlock(self, grid, width, causal)

    def flops(self, grid: Grid, width: int, causal: bool) -> int:
        taps = len(CAUSAL_TAPS if causal else TAPS)  # those beyond the border count too
        return grid.positions * 2 * 2 * taps * width * width

    def init(self, scheme: InitScheme) -> InitTable:
        return {"conv?": Glorot()}


class ConvolutionBlock(Block):
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
        begin = buffer.count
        past = buffer.extend(tokens)
        position = torch.arange(begin, buffer.count, device=tokens.device)[:, None]
        down, right = torch.tensor(CAUSAL_TAPS, device=tokens.device).unbind(1)
        row, col = position // self.grid.cols + down, position % self.grid.cols + right
        inside = (row >= 0) & (col >= 0) & (col < self.grid.cols)
        index = (row * self.grid.cols + col).clamp(min=0)
        neighbors = past[:, index].masked_fill(~inside[..., None], 0.0)
        return torch.einsum("bnti,oit->bno", neighbors, self.weight) + self.bias


Pixels = Float[Tensor, "patches _ _ _"]

MAX_GROUPS = 32
MIN_CHANNELS_PER_GROUP = 4  # where there are as many
EPSILON = 1e-10  # of a weight's variance (BiT)


class StdConv2d(nn.Conv2d):
    """A convolution whose weights are standardized per output channel (BiT): mean 0, sum of squares 1."""

    def __init__(self, in_channels: int, out_channels: int, side: int, stride: int = 1):
        super().__init__(in_channels, out_channels, side, stride, padding=side // 2, bias=False)

    def forward(self, pixels: Pixels) -> Pixels:
        rows = self.weight.flatten(1)
        rows = rows - rows.mean(1, keepdim=True)
        rows = rows / (rows.square().sum(1, keepdim=True) + EPSILON).sqrt()
        return self._conv_forward(pixels, rows.view_as(self.weight), None)


class GroupNormReLU(nn.Module):
    """GroupNorm over the channels and pixels of one patch, then ReLU."""

    def __init__(self, channels: int):
        super().__init__()
        groups = math.gcd(MAX_GROUPS, max(1, channels // MIN_CHANNELS_PER_GROUP))
        self.norm = nn.GroupNorm(groups, channels)

    def forward(self, pixels: Pixels) -> Pixels:
        return F.relu(self.norm(pixels))


EXPANSION = 4  # output channels of a bottleneck over its inner channels


class Bottleneck(nn.Module):
    """x + conv3(f(conv2(f(conv1(f(x)))))), f being GroupNorm and ReLU; conv2 is 3 x 3, the others 1 x 1.

    Where the shape changes, the shortcut is conv0(f(x)) (BiT's ResNet v2). `side` is that of conv2.
    """

    INIT: ClassVar[InitTable] = {"conv?": Glorot()}

    def __init__(self, in_channels: int, inner: int, stride: int = 1, *, side: int = 3):
        super().__init__()
        out_channels = EXPANSION * inner
        self.first = GroupNormReLU(in_channels)
        self.second, self.third = GroupNormReLU(inner), GroupNormReLU(inner)
        self.conv1 = StdConv2d(in_channels, inner, 1)
        self.conv2 = StdConv2d(inner, inner, side, stride)
        self.conv3 = StdConv2d(inner, out_channels, 1)
        project = stride > 1 or in_channels != out_channels
        self.conv0 = StdConv2d(in_channels, out_channels, 1, stride) if project else None

    def forward(self, pixels: Pixels) -> Pixels:
        normed = self.first(pixels)
        inner = self.second(self.conv1(normed))
        inner = self.third(self.conv2(inner))
        return (pixels if self.conv0 is None else self.conv0(normed)) + self.conv3(inner)


class UpsampleBlock(nn.Module):
    """conv0(u(x)) + conv2(f(conv1(u(f(x))))): u doubles the side, f is [GroupNorm and] ReLU."""

    def __init__(self, in_channels: int, out_channels: int, *, norm: bool):
        super().__init__()
        self.first, self.second = (activation(each, norm=norm) for each in (in_channels, out_channels))
        self.conv0 = _convolution(in_channels, out_channels, 1, norm=norm)
        self.conv1 = _convolution(in_channels, out_channels, 3, norm=norm)
        self.conv2 = _convolution(out_channels, out_channels, 3, norm=norm)

    def forward(self, pixels: Pixels) -> Pixels:
        inner = self.second(self.conv1(_upsample(self.first(pixels))))
        return self.conv0(_upsample(pixels)) + self.conv2(inner)


def activation(channels: int, *, norm: bool) -> nn.Module:
    """Return ReLU, after a group norm with `norm`."""
    return GroupNormReLU(channels) if norm else nn.ReLU()


def _convolution(in_channels: int, out_channels: int, side: int, *, norm: bool) -> nn.Conv2d:
    if norm:
        return StdConv2d(in_channels, out_channels, side)
    return nn.Conv2d(in_channels, out_channels, side, padding=side // 2)


def _upsample(pixels: Pixels) -> Pixels:
    return repeat(pixels, "b c h w -> b c (h two) (w too)", two=2, too=2)


def count_flops(build: Callable[[], nn.Module], shape: tuple[int, ...], dtype: torch.dtype) -> int:
    """Return the FLOPs of matrices and convolutions of one forward pass; a multiply-add counts as two."""
    with torch.device("meta"), FlopCounterMode(display=False) as counter:
        build()(torch.zeros(shape, dtype=dtype))
    return int(counter.get_total_flops())
