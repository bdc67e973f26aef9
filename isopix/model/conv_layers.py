"""Convolution layers over patches: the output for a patch depends on no other patch."""

import math
from typing import ClassVar

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

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
