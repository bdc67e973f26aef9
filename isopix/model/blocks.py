"""Isotropic blocks: every one maps tokens to tokens of the same shape.

A block is a spec, `build(grid, width, causal)`, and a module whose first norm is called `norm1` (the probes
read it). A block with a causal form also has `cache` and `step`, by which pictures are painted one position
at a time. A new block is one spec and one module, and its name in the union at the end: nothing else in the
package changes.
"""

from collections.abc import Callable
from dataclasses import field
from typing import Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from isopix.core.config import spec
from isopix.core.types import Grid, Tokens
from isopix.model.attention import Attention, Cache
from isopix.model.norms import Norm, RootMeanSquare

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


@spec
class Transformer:
    """a = h + attention(norm1(h)); h' = a + mlp(norm2(a)) (iGPT section 2.2; OpenAI's norm, activation, no
    biases).
    """

    kind: Literal["transformer"] = "transformer"
    heads: int = 8
    expansion: int = 4
    norm: Norm = field(default_factory=RootMeanSquare)
    activation: Activation = "quick_gelu"
    bias: bool = False

    def __post_init__(self) -> None:
        if self.heads < 1 or self.expansion < 1:
            raise ValueError(f"heads {self.heads} and expansion {self.expansion} must be at least 1")
        if self.activation not in get_args(Activation):
            raise ValueError(
                f"activation '{self.activation}' is unknown; known: {', '.join(get_args(Activation))}"
            )

    def build(self, grid: Grid, width: int, causal: bool) -> "TransformerBlock":
        """One block; attention knows nothing of the grid, so `grid` is not used. Raises ValueError if
        heads do not divide width.
        """
        return TransformerBlock(self, width, causal)

    def flops(self, grid: Grid, width: int, causal: bool) -> int:
        """Multiply-adds counted as two, forward, one image; causal attention counts the half that is
        looked at.
        """
        seen = (grid.positions + 1) / 2 if causal else grid.positions
        matrices = 2 * width * width * (4 + 2 * self.expansion)
        return int(grid.positions * (matrices + 4 * seen * width))


class TransformerBlock(nn.Module):
    def __init__(self, spec: Transformer, width: int, causal: bool):
        super().__init__()
        self.norm1 = spec.norm.build(width)
        self.attention = Attention(width, spec.heads, causal, spec.bias)
        self.norm2 = spec.norm.build(width)
        self.mlp = MLP(width, spec.expansion, spec.activation, spec.bias)

    def forward(self, tokens: Tokens) -> Tokens:
        tokens = tokens + self.attention(self.norm1(tokens))
        return tokens + self.mlp(self.norm2(tokens))

    def cache(self, positions: int) -> Cache:
        return Cache(positions)

    def step(self, tokens: Tokens, cache: Cache) -> Tokens:
        tokens = tokens + self.attention.step(self.norm1(tokens), cache)
        return tokens + self.mlp(self.norm2(tokens))


Block = Transformer
