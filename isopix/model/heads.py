"""Heads: tokens to logits or means, zero-initialized: untrained they predict uniformly, or mid-range."""

import abc
from itertools import pairwise
from math import isqrt
from typing import TYPE_CHECKING, ClassVar, Literal

import torch
from einops import rearrange
from jaxtyping import Float, Num
from torch import Tensor, nn
from torch.nn import functional as F

from isopix.codecs.base import Codec
from isopix.core.choices import Size
from isopix.core.registry import register
from isopix.core.types import Codes, Logits, Tokens
from isopix.model.blocks.convolution import EXPANSION, Bottleneck, UpsampleBlock, activation, count_flops
from isopix.model.init import Glorot, InitScheme, InitTable, ModelPart, Zeros
from isopix.model.positions import Pooled

Nats = Float[Tensor, "B N Q"]


class Likelihood(nn.Module, abc.ABC):
    """Base of all heads: a distribution over codes at each position; `forward` returns its parameters."""

    if TYPE_CHECKING:

        def __call__(self, tokens: Tokens) -> Tensor: ...

    no_codes: ClassVar[str] = ""  # why it predicts no codes, if it does not
    no_logits: ClassVar[str] = ""  # why it has no logits to sample codes from, if it has none

    def require_codes(self) -> None:
        if self.no_codes:
            raise ValueError(self.no_codes)

    @abc.abstractmethod
    def nll(self, tokens: Tokens, targets: Codes, label_smoothing: float = 0.0) -> Nats:
        """Return -ln p(target) of each code, of targets smoothed over all K values by `label_smoothing`."""

    @abc.abstractmethod
    def mode(self, tokens: Tokens) -> Codes:
        """Return the most likely value of each code."""

    @abc.abstractmethod
    def logits(self, tokens: Tokens) -> Logits:
        """Return the logits of all K values of each code. Raises ValueError for a distribution without."""


class Categorical(Likelihood):
    """A softmax over the K values of each code: `forward` returns logits [B N Q K]."""

    def nll(self, tokens: Tokens, targets: Codes, label_smoothing: float = 0.0) -> Nats:
        logits = self.logits(tokens).flatten(0, 2)
        losses = F.cross_entropy(logits, targets.flatten(), reduction="none", label_smoothing=label_smoothing)
        return losses.reshape(targets.shape)

    def mode(self, tokens: Tokens) -> Codes:
        return self.logits(tokens).argmax(-1)

    def logits(self, tokens: Tokens) -> Logits:
        return self(tokens)


def at_least_float32(values: Tensor) -> Tensor:
    """Convert to float32, in which losses are computed; float64 stays as it is."""
    return values.to(torch.promote_types(values.dtype, torch.float32))


ClassLogits = Float[Tensor, "B C"]
Means = Float[Tensor, "B N Q"]  # codes 0..K-1 scaled to [-1, 1]


class HeadSpec(ModelPart, noun="head"):
    """Settings of a head."""

    predicts_codes: ClassVar[bool] = True  # whether there is anything that predicts codes
    categorical: ClassVar[bool] = True  # whether it gives probabilities of codes

    @property
    def predicts_means(self) -> bool:
        """Whether its loss is half the squared error of a mean for each code, by `to_levels`."""
        return False

    @abc.abstractmethod
    def build(self, codec: Codec, width: int) -> Likelihood:
        """Return the head. Raises ValueError for a codec or width that it cannot have."""

    @abc.abstractmethod
    def flops_per_token(self, codec: Codec, width: int) -> int:
        """Return the FLOPs of a forward pass per position; a multiply-add counts as two."""

    def init(self, scheme: InitScheme) -> InitTable:
        return {"project": Zeros()}


@register("linear")
class LinearHeadSpec(HeadSpec):
    """One untied matrix without bias (iGPT's `wtet`)."""

    def build(self, codec: Codec, width: int) -> "LinearHead":
        return LinearHead(codec, width)

    def flops_per_token(self, codec: Codec, width: int) -> int:
        return 2 * width * codec.num_codes * codec.vocab_size


@register("upsampling")
class UpsamplingHeadSpec(HeadSpec):
    """A residual decoder from a vector to a pixel per code, doubling the side (PatchFormer section 2.1)."""

    channels: Size = 256
    """Channels of the first 2 x 2 pixels."""
    norm: bool = True
    """Whether convolutions are standardized and activations normalized, as in `stem=resnet`: slower."""

    def label(self) -> str:
        norms = "" if self.norm else ", without norms"
        return f"upsampling residual decoder, {self.channels} channels{norms}"

    def build(self, codec: Codec, width: int) -> "UpsamplingHead":
        return UpsamplingHead(self, codec, width)

    def flops_per_token(self, codec: Codec, width: int) -> int:
        return count_flops(lambda: self.build(codec, width), (1, 1, width), torch.float32)

    def init(self, scheme: InitScheme) -> InitTable:
        return {**super().init(scheme), "spread": Glorot(), "conv?": Glorot()}


@register("regression", "linear regression, squared error")
class RegressionHeadSpec(HeadSpec):
    """A mean for each code, by one matrix without bias, with squared error (ViT, appendix B.1.2)."""

    categorical: ClassVar[bool] = False
    error: Literal["squared", "absolute"] = "squared"
    """`squared`, half of it, or `absolute` (SimMIM, Xie et al. 2022, section 3.4)."""
    normalize: bool = False
    """Whether the codes of a position are normalized by their own mean and standard deviation (MAE, He et al.
    2022, section 3); pictures show predictions around mid-gray.
    """

    @property
    def predicts_means(self) -> bool:
        return self.error == "squared" and not self.normalize

    def label(self) -> str:
        return f"linear regression, {self.error} error{' of normalized patches' * self.normalize}"

    def build(self, codec: Codec, width: int) -> "RegressionHead":
        return RegressionHead(codec, width, self)

    def flops_per_token(self, codec: Codec, width: int) -> int:
        return 2 * width * codec.num_codes


class LinearHead(Categorical):
    """A matrix [Q*K D]; logits are float32 or wider."""

    def __init__(self, codec: Codec, width: int):
        super().__init__()
        self.num_codes = codec.num_codes
        self.project = nn.Linear(width, codec.num_codes * codec.vocab_size, bias=False)

    def forward(self, tokens: Tokens) -> Logits:
        return rearrange(at_least_float32(self.project(tokens)), "b n (q k) -> b n q k", q=self.num_codes)


FIRST_SIDE = 2  # of the feature map that a vector is projected to


class UpsamplingHead(Categorical):
    def __init__(self, spec: UpsamplingHeadSpec, codec: Codec, width: int):
        super().__init__()
        side, channels = isqrt(codec.num_codes), spec.channels
        doublings = (side // FIRST_SIDE).bit_length() - 1
        if doublings < 1 or codec.num_codes != (FIRST_SIDE << doublings) ** 2:
            sizes = "4 x 4, 8 x 8, 16 x 16 .. codes per position"
            raise ValueError(f"an upsampling head needs {sizes}; this codec has {codec.num_codes}")
        self.spread = nn.Linear(width, channels * FIRST_SIDE**2)
        inputs = [max(1, channels >> step) for step in range(doublings + 1)]
        steps = [UpsampleBlock(*pair, norm=spec.norm) for pair in pairwise(inputs)]
        self.steps = nn.Sequential(*steps, activation(inputs[-1], norm=spec.norm))
        self.project = nn.Linear(inputs[-1], codec.vocab_size, bias=False)

    def forward(self, tokens: Tokens) -> Logits:
        spread = rearrange(self.spread(tokens), "b n (c h w) -> (b n) c h w", h=FIRST_SIDE, w=FIRST_SIDE)
        pixels = rearrange(self.steps(spread), "(b n) c h w -> b n (h w) c", b=len(tokens))
        return at_least_float32(self.project(pixels))


SHOWN_STD = 0.5  # of normalized codes, in pictures
NORM_EPSILON = 1e-6  # added to the variance of normalized codes


def to_levels(codes: Num[Tensor, "*shape"], vocab_size: int) -> Float[Tensor, "*shape"]:
    """Return codes 0..K-1 scaled to [-1, 1]."""
    return 2 * at_least_float32(codes) / (vocab_size - 1) - 1


class RegressionHead(Likelihood):
    """A matrix [Q D] to the means of Gaussians of unit variance, over codes k as x = 2 k / (K - 1) - 1.

    Nats are those above a perfect prediction, (x - mean)^2 / 2; the mean squared error is twice the nats, and
    in code values (K - 1)^2 / 2 times.
    """

    no_logits: ClassVar[str] = (
        "this model has a regression head, which predicts a mean for each code and no logits; "
        "its loss (nll) and reconstructions (reconstruct) are available"
    )

    def __init__(self, codec: Codec, width: int, spec: RegressionHeadSpec):
        super().__init__()
        if not codec.ordinal:
            raise ValueError(
                f"head regression needs codes that are brightness levels; the {codec.vocab_size} codes of "
                "this codec have no order; use codec full_patch, bytes or gray_thumbnail"
            )
        self.vocab_size, self.spec = codec.vocab_size, spec
        self.project = nn.Linear(width, codec.num_codes, bias=False)

    def forward(self, tokens: Tokens) -> Means:
        return at_least_float32(self.project(tokens))

    def nll(self, tokens: Tokens, targets: Codes, label_smoothing: float = 0.0) -> Nats:
        assert not label_smoothing, "a mean has no soft labels"
        means = self(tokens)
        levels = to_levels(targets.to(means.dtype), self.vocab_size)
        if self.spec.normalize:
            variance, mean = torch.var_mean(levels, -1, keepdim=True)
            levels = (levels - mean) / (variance + NORM_EPSILON).sqrt()
        difference = means - levels
        return difference.abs() if self.spec.error == "absolute" else difference.square() / 2

    def mode(self, tokens: Tokens) -> Codes:
        shown = self(tokens) * (SHOWN_STD if self.spec.normalize else 1)
        values = (shown + 1) * (self.vocab_size - 1) / 2
        return values.round().clamp(0, self.vocab_size - 1).long()

    def logits(self, tokens: Tokens) -> Logits:
        raise ValueError(self.no_logits)


class ClassHead(nn.Module):
    """Pooled features to class logits: one matrix [C D], zero-initialized, without bias as in Image GPT, or
    with one; with `residual_block` behind a bottleneck of ResNet stems (PatchFormer section 2.2).
    """

    def __init__(self, width: int, classes: int, *, residual_block: bool, bias: bool = False):
        super().__init__()
        if residual_block and width % EXPANSION:
            raise ValueError(f"residual_block needs a width that is a multiple of {EXPANSION}, not {width}")
        self.weight = nn.Parameter(torch.zeros(classes, width))
        self.bias = nn.Parameter(torch.zeros(classes)) if bias else None
        self.block = Bottleneck(width, width // EXPANSION, side=1) if residual_block else None

    def forward(self, pooled: Pooled, dropout_mask: Pooled | None = None) -> ClassLogits:
        """Return the logits [B C]; features are multiplied by `dropout_mask`."""
        pooled = pooled.to(self.weight.dtype)  # float32, also where the weights were converted
        if self.block is not None:
            pooled = rearrange(self.block(rearrange(pooled, "b d -> b d 1 1")), "b d 1 1 -> b d")
        pooled = pooled if dropout_mask is None else pooled * dropout_mask
        return at_least_float32(F.linear(pooled.to(self.weight.dtype), self.weight, self.bias))


@register("none")
class NoHeadSpec(HeadSpec):
    """No head: a network that was imported without anything that predicts codes."""

    predicts_codes: ClassVar[bool] = False

    def build(self, codec: Codec, width: int) -> "NoHead":
        return NoHead()

    def flops_per_token(self, codec: Codec, width: int) -> int:
        return 0


class NoHead(Likelihood):
    """Raises ValueError wherever codes are to be predicted."""

    no_codes: ClassVar[str] = (
        "this network has no decoder: nothing in it predicts codes, so that it has no loss and cannot sample "
        "or reconstruct; it can be probed, analyzed and fine-tuned on classes (generative_weight=0)"
    )

    def forward(self, tokens: Tokens, targets: Codes | None = None, label_smoothing: float = 0.0) -> Tensor:
        raise ValueError(self.no_codes)

    nll = mode = logits = forward
