"""Norms over the channels of one position."""

import abc
import math

from torch import nn

from isopix.core.registry import Part, register


class NormSpec(Part, noun="norm"):
    """Settings of a norm."""

    @abc.abstractmethod
    def build(self, width: int) -> nn.Module:
        """Return the norm over so many channels."""


@register("root_mean_square")
class RootMeanSquare(NormSpec):
    """x / sqrt(mean(x^2) + epsilon) * gain: no mean is subtracted and there is no bias (OpenAI's released
    iGPT).
    """

    epsilon: float = 1e-5

    def __post_init__(self) -> None:
        _check(self.epsilon)

    def build(self, width: int) -> nn.Module:
        return nn.RMSNorm(width, eps=self.epsilon)

    def label(self) -> str:
        return "RMSNorm"


@register("layer")
class Layer(NormSpec):
    """The standard layer norm with gain and bias."""

    epsilon: float = 1e-5

    def __post_init__(self) -> None:
        _check(self.epsilon)

    def build(self, width: int) -> nn.Module:
        return nn.LayerNorm(width, eps=self.epsilon)

    def label(self) -> str:
        return "LayerNorm"


def _check(epsilon: float) -> None:
    if not 0 < epsilon < math.inf:
        raise ValueError(f"epsilon {epsilon} must be a number greater than 0")
