"""Convolutions over patches: layers whose answer for one patch depends on no other patch."""

import math

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

Pixels = Float[Tensor, "cells _ _ _"]
Vectors = Float[Tensor, "cells _"]

GROUPS = 32  # of channels that share a norm, at most; and
LEAST = 4  # channels a group, where there are as many
EPSILON = 1e-10  # of a weight's variance (BiT)


class Standardised(nn.Conv2d):
    """A convolution without bias; the weights of each channel that leaves it have mean 0, and 1 as the sum of
    their squares (BiT's weight standardisation, scaled to keep variances).
    """

    def __init__(self, inputs: int, outputs: int, side: int, stride: int = 1):
        super().__init__(inputs, outputs, side, stride, padding=side // 2, bias=False)

    def forward(self, pixels: Pixels) -> Pixels:
        rows = self.weight.flatten(1)
        rows = rows - rows.mean(1, keepdim=True)
        rows = rows / (rows.square().sum(1, keepdim=True) + EPSILON).sqrt()
        return self._conv_forward(pixels, rows.view_as(self.weight), None)


class Rectified(nn.Module):
    """A ReLU behind a norm over groups of channels: mean and variance of one patch, at all its pixels."""

    def __init__(self, channels: int):
        super().__init__()
        self.norm = nn.GroupNorm(math.gcd(GROUPS, max(1, channels // LEAST)), channels)

    def forward(self, pixels: Pixels) -> Pixels:
        return F.relu(self.norm(pixels))


class Mean(nn.Module):
    """The mean over a patch."""

    def forward(self, pixels: Pixels) -> Vectors:
        return pixels.mean((2, 3))
