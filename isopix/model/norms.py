"""Norms over the channels of one position."""

import math
from typing import Literal

from torch import nn

from isopix.core.config import spec


@spec
class RootMeanSquare:
    """x / sqrt(mean(x^2) + epsilon) * gain: no mean is subtracted and there is no bias (OpenAI's released
    iGPT).
    """

    kind: Literal["root_mean_square"] = "root_mean_square"
    epsilon: float = 1e-5

    def __post_init__(self) -> None:
        _check(self.epsilon)

    def build(self, width: int) -> nn.Module:
        return nn.RMSNorm(width, eps=self.epsilon)

    def label(self) -> str:
        return "RMSNorm"


@spec
class Layer:
    """The standard layer norm with gain and bias."""

    kind: Literal["layer"] = "layer"
    epsilon: float = 1e-5

    def __post_init__(self) -> None:
        _check(self.epsilon)

    def build(self, width: int) -> nn.Module:
        return nn.LayerNorm(width, eps=self.epsilon)

    def label(self) -> str:
        return "LayerNorm"


Norm = RootMeanSquare | Layer


def _check(epsilon: float) -> None:
    if not 0 < epsilon < math.inf:
        raise ValueError(f"epsilon {epsilon} must be a number greater than 0")
