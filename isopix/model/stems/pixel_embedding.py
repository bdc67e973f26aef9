"""Value stems: the three channels of a pixel as numbers, each through fixed features and a learnt matrix.

A channel has 256 values, so that each is embedded once and looked up: what is learnt is linear in the
features, as if it were computed pixel by pixel.
"""

import math

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from isopix.codecs.base import Codec
from isopix.core.registry import register
from isopix.core.types import Images
from isopix.model.stems.base import Parts, StemSpec, Vectors

CHANNELS, LEVELS = 3, 256
Values = Float[Tensor, " 256"]  # 0..255, scaled to [-1, 1]
Features = Float[Tensor, "3 256 F"]


@register("fourier")
class Fourier(StemSpec):
    """Random Fourier features: g(p) = (sin 2 pi b_1 p, cos 2 pi b_1 p, ..) with b_i ~ N(0, sigma^2), drawn
    once for each channel, and p in [-1, 1]; then linear (inductive biases of small isotropic nets, section
    3).

    Two values that differ by d are alike as exp(-2 pi^2 sigma^2 d^2), on average over b. The paper's sigma is
    1; it does not say how many `frequencies`.
    """

    sigma: float = 1.0
    frequencies: int = 64

    def __post_init__(self) -> None:
        if not 0 <= self.sigma < math.inf:
            raise ValueError(f"sigma {self.sigma} must be a number of at least 0")
        if self.frequencies < 1:
            raise ValueError(f"frequencies {self.frequencies} must be at least 1")

    def build(self, codec: Codec, width: int) -> "ValueEmbedding":
        """Raises ValueError if a position is more than a pixel."""
        return ValueEmbedding(FourierFeatures(self), 2 * self.frequencies, codec, width)

    def parts(self, codec: Codec) -> int:
        """How many vectors make up a position."""
        return CHANNELS

    def flops(self, codec: Codec, width: int) -> int:
        """None: each value is embedded once, and looked up."""
        return 0

    def label(self) -> str:
        return f"{self.frequencies} random Fourier features per channel, sigma {self.sigma:g}"


@register("continuous")
class Continuous(StemSpec):
    """(x - 127.5) / 127.5 of each channel, then linear (inductive biases of small isotropic nets, section
    3).
    """

    def build(self, codec: Codec, width: int) -> "ValueEmbedding":
        """Raises ValueError if a position is more than a pixel."""
        return ValueEmbedding(ScaledFeatures(), 1, codec, width)

    def parts(self, codec: Codec) -> int:
        """How many vectors make up a position."""
        return CHANNELS

    def flops(self, codec: Codec, width: int) -> int:
        """None: each value is embedded once, and looked up."""
        return 0

    def label(self) -> str:
        return "linear embedding of the three channels"


class FourierFeatures(nn.Module):
    """`normals` are the frequencies for sigma 1, so that networks that differ in sigma share them."""

    normals: Tensor

    def __init__(self, spec: Fourier):
        super().__init__()
        self.sigma = spec.sigma
        self.register_buffer("normals", torch.zeros(CHANNELS, spec.frequencies))

    def forward(self, values: Values) -> Features:
        """Sines and cosines take turns."""
        turns = 2 * math.pi * self.sigma * self.normals[:, None] * values[:, None]
        return torch.stack([turns.sin(), turns.cos()], -1).flatten(-2)


class ScaledFeatures(nn.Module):
    """The value itself."""

    def forward(self, values: Values) -> Features:
        return values[:, None].expand(CHANNELS, -1, 1)


class ValueEmbedding(nn.Module):
    """parts_ic = W_c g_c(value_ic) + a_c, with c one of three channels: a linear layer over all features, of
    whose bias each channel has a share, so that a hidden channel leaves nothing of itself.
    """

    def __init__(self, features: nn.Module, size: int, codec: Codec, width: int):
        super().__init__()
        if codec.patch_size != 1:
            raise ValueError(
                f"a position of {codec.patch_size} x {codec.patch_size} pixels has no single value a channel"
            )
        self.features = features
        self.project = nn.Linear(CHANNELS * size, width, bias=False)
        self.bias = nn.Parameter(torch.zeros(CHANNELS, width))

    def vectors(self) -> Vectors:
        """What every value of every channel is embedded as."""
        values = torch.linspace(-1, 1, LEVELS, dtype=self.bias.dtype, device=self.bias.device)
        weight = rearrange(self.project.weight, "d (c f) -> c f d", c=CHANNELS)
        return self.features(values) @ weight + self.bias[:, None]

    def seen(self, images: Images) -> Images:
        """All of them."""
        return images

    def forward(self, images: Images) -> Parts:
        values = rearrange(images, "b c h w -> c b (h w)").int()
        return [F.embedding(value, table) for value, table in zip(values, self.vectors(), strict=True)]
