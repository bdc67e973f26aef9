"""Norms over the channels of one position."""

import abc
from typing import Annotated, Protocol, runtime_checkable

from jaxtyping import Float
from torch import Tensor, nn

from isopix.core.ranges import Range
from isopix.core.registry import register
from isopix.model.init import ModelPart

Epsilon = Annotated[float, Range(above=0)]


@runtime_checkable
class Norm(Protocol):
    """A module that normalizes each position independently."""

    def __call__(self, tokens: Float[Tensor, "B _ D"], /) -> Float[Tensor, "B _ D"]: ...


class NormSpec(ModelPart, noun="norm"):
    """Settings of a norm."""

    @abc.abstractmethod
    def build(self, width: int) -> Norm:
        """Return a norm over this many channels, an nn.Module."""


@register("rms_norm")
class RMSNormSpec(NormSpec):
    """x / sqrt(mean(x^2) + epsilon) * gain, without mean subtraction or bias (OpenAI's released iGPT)."""

    epsilon: Epsilon = 1e-5
    """Added to the mean square."""

    def label(self) -> str:
        return "RMSNorm"

    def build(self, width: int) -> nn.RMSNorm:
        return nn.RMSNorm(width, eps=self.epsilon)


@register("layer_norm")
class LayerNormSpec(NormSpec):
    """The standard layer norm with gain and bias."""

    epsilon: Epsilon = 1e-5
    """Added to the variance."""

    def label(self) -> str:
        return "LayerNorm"

    def build(self, width: int) -> nn.LayerNorm:
        return nn.LayerNorm(width, eps=self.epsilon)
