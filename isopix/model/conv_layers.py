"""Convolution layers over patches: the output for a patch depends on no other patch."""

import math
from collections.abc import Callable
from typing import ClassVar

import torch
from einops import repeat
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from isopix.model.init import Glorot, InitTable

Pixels = Float[Tensor, "patches _ _ _"]

MAX_GROUPS = 32
MIN_CHANNELS_PER_GROUP = 4  # where there are as many
EPSILON = 1e-10  # of a weight's variance (BiT)


class StdConv2d(nn.Conv2d):
    """A convolution without bias whose weights are standardized per output channel: mean 0, sum of squares 1
    (BiT's weight standardization, scaled to keep variances).
    """

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

    Where the shape changes, the shortcut is conv0(f(x)), a 1 x 1 convolution (BiT's ResNet v2). `side` is
    that of conv2: 1 for an input of a single pixel.
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
    """conv0(u(x)) + conv2(f(conv1(u(f(x))))): u doubles the side, f is GroupNorm and ReLU, or without `norm`
    ReLU alone; conv0 is 1 x 1.
    """

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
