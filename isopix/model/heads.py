"""Heads: tokens to logits, or to means; zero-initialised, so that an untrained model is exactly uniform, or
expects the middle of all levels.
"""

import abc
from itertools import pairwise
from math import isqrt

import torch
from einops import rearrange, repeat
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from isopix.codecs.base import Codec
from isopix.core.registry import Part, register
from isopix.core.types import Codes, Logits, Tokens
from isopix.model.conv_layers import Pixels, Rectified, Standardised
from isopix.model.likelihood import Categorical, Decoder, Nats, at_least_float32
from isopix.model.pool import Pooled
from isopix.model.profiling import counted
from isopix.model.stems.resnet import WIDER, Bottleneck

ClassLogits = Float[Tensor, "B C"]
Means = Float[Tensor, "B N Q"]  # levels 0..K-1 scaled to [-1, 1]


class HeadSpec(Part, noun="head"):
    """Settings of a head."""

    @property
    def categorical(self) -> bool:
        """Whether each level has a chance, so that codes can be drawn and labels be smoothed."""
        return True

    @abc.abstractmethod
    def build(self, codec: Codec, width: int) -> Decoder:
        """Return the head. Raises ValueError for a codec or width that it cannot have."""

    @abc.abstractmethod
    def flops(self, codec: Codec, width: int) -> int:
        """Return the FLOPs per position; a multiply-add counts as two."""


@register("linear")
class Linear(HeadSpec):
    """One untied matrix without bias (iGPT's `wtet`)."""

    def build(self, codec: Codec, width: int) -> "LinearHead":
        return LinearHead(codec, width)

    def flops(self, codec: Codec, width: int) -> int:
        """Multiply-adds counted as two, of one position."""
        return 2 * width * codec.num_codes * codec.vocab_size

    def label(self) -> str:
        return "linear"


@register("upsampling")
class Upsampling(HeadSpec):
    """A residual decoder from a vector to a thumbnail: 2 x 2 pixels of `channels` channels, doubled in side
    and halved in channels until there is one pixel a code (PatchFormer section 2.1, which tells no more).
    """

    channels: int = 256

    def __post_init__(self) -> None:
        if self.channels < 1:
            raise ValueError(f"channels {self.channels} must be at least 1")

    def build(self, codec: Codec, width: int) -> "UpsamplingHead":
        """Raises ValueError unless the codes of a position are a square of 4 x 4, 8 x 8, and so on."""
        return UpsamplingHead(self, codec, width)

    def flops(self, codec: Codec, width: int) -> int:
        """Multiply-adds counted as two, of one position."""
        return counted(lambda: self.build(codec, width), (1, 1, width), torch.float32)

    def label(self) -> str:
        return f"upsampling residual decoder, {self.channels} channels"


@register("regression")
class Regression(HeadSpec):
    """A mean for each code, by one matrix without bias, and the squared error of it: "regression on the full
    patch using L2" (ViT, appendix B.1.2).
    """

    @property
    def categorical(self) -> bool:
        return False

    def build(self, codec: Codec, width: int) -> "RegressionHead":
        """Raises ValueError for codes that are names and not levels, among which no mean can be taken."""
        return RegressionHead(codec, width)

    def flops(self, codec: Codec, width: int) -> int:
        """Multiply-adds counted as two, of one position."""
        return 2 * width * codec.num_codes

    def label(self) -> str:
        return "linear regression, squared error"


class LinearHead(Categorical):
    """A matrix [Q*K D]; logits are float32 or wider."""

    def __init__(self, codec: Codec, width: int):
        super().__init__()
        self.codes = codec.num_codes
        self.project = nn.Linear(width, codec.num_codes * codec.vocab_size, bias=False)

    def forward(self, tokens: Tokens) -> Logits:
        return rearrange(at_least_float32(self.project(tokens)), "b n (q k) -> b n q k", q=self.codes)


FIRST = 2  # side of the picture that a vector is spread to


class UpsamplingHead(Categorical):
    def __init__(self, spec: Upsampling, codec: Codec, width: int):
        super().__init__()
        side, channels = isqrt(codec.num_codes), spec.channels
        doublings = (side // FIRST).bit_length() - 1
        if doublings < 1 or codec.num_codes != (FIRST << doublings) ** 2:
            raise ValueError(
                f"an upsampling head draws 4 x 4, 8 x 8, 16 x 16 .. codes; this codec has {codec.num_codes}"
            )
        self.spread = nn.Linear(width, channels * FIRST**2)
        inputs = [max(1, channels >> step) for step in range(doublings + 1)]
        steps = [Doubled(*pair) for pair in pairwise(inputs)]
        self.steps = nn.Sequential(*steps, Rectified(inputs[-1]))
        self.project = nn.Linear(inputs[-1], codec.vocab_size, bias=False)

    def forward(self, tokens: Tokens) -> Logits:
        spread = rearrange(self.spread(tokens), "b n (c h w) -> (b n) c h w", h=FIRST, w=FIRST)
        pixels = rearrange(self.steps(spread), "(b n) c h w -> b n (h w) c", b=len(tokens))
        return at_least_float32(self.project(pixels))


class Doubled(nn.Module):
    """conv0(u) + conv2(f(conv1(u f(x)))): u doubles the side, f is a norm and a ReLU; conv0 is 1 x 1, the
    others 3 x 3.
    """

    def __init__(self, inputs: int, outputs: int):
        super().__init__()
        self.first, self.second = Rectified(inputs), Rectified(outputs)
        self.conv0 = Standardised(inputs, outputs, 1)
        self.conv1 = Standardised(inputs, outputs, 3)
        self.conv2 = Standardised(outputs, outputs, 3)

    def forward(self, pixels: Pixels) -> Pixels:
        inner = self.second(self.conv1(_doubled(self.first(pixels))))
        return self.conv0(_doubled(pixels)) + self.conv2(inner)


def _doubled(pixels: Pixels) -> Pixels:
    return repeat(pixels, "b c h w -> b c (h two) (w too)", two=2, too=2)


class RegressionHead(Decoder):
    """A matrix [Q D] to the means of Gaussians of unit variance, over levels k as x = 2 k / (K - 1) - 1.

    Nats are those above a perfect answer, (x - mean)^2 / 2: -ln p(x) less its constant, ln(2 pi) / 2. So the
    mean squared error is twice the nats, and in levels (K - 1)^2 / 2 times the nats: for bytes a loss of 0.02
    nats is a root mean squared error of 127.5 sqrt(0.04) = 25.5 levels.
    """

    def __init__(self, codec: Codec, width: int):
        super().__init__()
        if not codec.ordinal:
            raise ValueError(
                f"head regression needs codes that are levels of brightness, not the {codec.vocab_size} "
                "names of this codec; take codec full_patch, bytes or gray_thumbnail"
            )
        self.unit = (codec.vocab_size - 1) / 2  # levels
        self.project = nn.Linear(width, codec.num_codes, bias=False)

    def forward(self, tokens: Tokens) -> Means:
        return at_least_float32(self.project(tokens))

    def grade(self, tokens: Tokens, answers: Codes, smoothing: float = 0.0) -> Nats:
        """Half the squared error of each code; there is nothing to smooth."""
        assert not smoothing, "a mean has no soft labels"
        means = self(tokens)
        return (means - (answers.to(means.dtype) / self.unit - 1)).square() / 2

    def likeliest(self, tokens: Tokens) -> Codes:
        """The level nearest to each mean."""
        levels = (self(tokens) + 1) * self.unit
        return levels.round().clamp(0, 2 * self.unit).long()

    def logits(self, tokens: Tokens) -> Logits:
        raise ValueError(
            "this model's head is a regression: it gives a mean for each code and no logits; "
            "it can be graded (nll) and fill in what is hidden (reconstruct)"
        )


class ClassHead(nn.Module):
    """Pooled vectors to classes: one matrix [C D] without bias, zero at first, as the released code of Image
    GPT has it. With `residual_block` a bottleneck, as ResNet stems have, stands before it (PatchFormer
    section 2.2).

    Raises ValueError for a width that the block cannot have.
    """

    def __init__(self, width: int, classes: int, *, residual_block: bool):
        super().__init__()
        if residual_block and width % WIDER:
            raise ValueError(
                f"finetune.residual_block needs a width that is a multiple of {WIDER}, not {width}"
            )
        self.weight = nn.Parameter(torch.zeros(classes, width))
        self.block = Bottleneck(width, width // WIDER, side=1) if residual_block else None

    def forward(self, pooled: Pooled, kept: Pooled | None = None) -> ClassLogits:
        """The logits [B C]; `kept` is what dropout multiplies each feature by."""
        if self.block is not None:
            pooled = rearrange(self.block(rearrange(pooled, "b d -> b d 1 1")), "b d 1 1 -> b d")
        return at_least_float32(F.linear(pooled if kept is None else pooled * kept, self.weight))
