"""The MLP over the channels of each position alone, and its activations."""

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from isopix.core.types import Tokens

Activation = Literal["quick_gelu", "gelu"]


def quick_gelu(x: Tensor) -> Tensor:
    """x * sigmoid(1.702 x), OpenAI's approximation of GELU."""
    return x * torch.sigmoid(1.702 * x)


ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {"quick_gelu": quick_gelu, "gelu": F.gelu}


class MLP(nn.Module):
    """width -> expansion * width -> width, at each position alone."""

    def __init__(self, width: int, expansion: int, activation: Activation, bias: bool):
        super().__init__()
        self.up = nn.Linear(width, expansion * width, bias=bias)
        self.down = nn.Linear(expansion * width, width, bias=bias)
        self.activation = ACTIVATIONS[activation]

    def forward(self, tokens: Tokens) -> Tokens:
        return self.down(self.activation(self.up(tokens)))
