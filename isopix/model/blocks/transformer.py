"""Transformer block: attention over all positions, then an MLP at each."""

from collections.abc import Iterator
from dataclasses import field
from typing import get_args

import torch
from torch import nn

from isopix.core.registry import register
from isopix.core.types import Grid, PositionIndices, SelectedTokens, Tokens
from isopix.model.attention import Attention, Span, Weights
from isopix.model.blocks.base import BlockSpec
from isopix.model.kv_cache import Pair, Seen
from isopix.model.mlp import MLP, Activation
from isopix.model.norms import NormSpec, RootMeanSquare


@register("transformer")
class Transformer(BlockSpec):
    """a = h + attention(norm1(h)); h' = a + mlp(norm2(a)) (iGPT section 2.2; OpenAI's norm, activation, no
    biases).
    """

    heads: int = 8
    expansion: int = 4
    norm: NormSpec = field(default_factory=RootMeanSquare)
    activation: Activation = "quick_gelu"
    bias: bool = False

    def __post_init__(self) -> None:
        if self.heads < 1 or self.expansion < 1:
            raise ValueError(f"heads {self.heads} and expansion {self.expansion} must be at least 1")
        if self.activation not in get_args(Activation):
            raise ValueError(
                f"activation '{self.activation}' is unknown; known: {', '.join(get_args(Activation))}"
            )

    @property
    def anywhere(self) -> bool:
        """Whether it takes any set of positions, instead of the whole grid in raster order."""
        return True

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

    def label(self) -> str:
        activation = {"quick_gelu": "QuickGELU", "gelu": "GELU"}[self.activation]
        size = f"{self.heads} head{'s' * (self.heads != 1)}, MLP {self.expansion}x"
        return f"transformer, {size}, {self.norm.label()}, {activation}"


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

    @property
    def selects(self) -> bool:
        """Whether it can be `asked`."""
        return not self.attention.causal

    def asked(self, tokens: Tokens, places: PositionIndices) -> SelectedTokens:
        """What `forward` answers at these places alone, at less cost."""
        own = torch.take_along_dim(tokens, places[..., None], 1)
        own = own + self.attention.asked(self.norm1(tokens), places)
        return own + self.mlp(self.norm2(own))

    def spans(self, grid: Grid) -> list[Span]:
        """Of its one attention: everywhere."""
        return [Span(grid)]

    def weights(self, tokens: Tokens) -> Iterator[Weights]:
        """Of its one attention."""
        yield self.attention.weights(self.norm1(tokens))

    def cache(self, positions: int) -> Pair:
        return Pair(Seen(positions), Seen(positions))

    def step(self, tokens: Tokens, cache: Pair) -> Tokens:
        tokens = tokens + self.attention.step(self.norm1(tokens), cache)
        return tokens + self.mlp(self.norm2(tokens))
