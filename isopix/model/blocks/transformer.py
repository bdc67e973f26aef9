"""Transformer block: attention over all positions, then an MLP at each."""

import math
from collections.abc import Iterator
from dataclasses import field
from typing import ClassVar

import torch
from torch import nn

from isopix.core.ranges import Dropout, Size
from isopix.core.registry import register
from isopix.core.types import Grid, PositionIndices, SelectedTokens, Tokens
from isopix.model.attention import Attention, AttentionAxis, AttentionWeights
from isopix.model.blocks.base import Block, BlockSpec
from isopix.model.init import Glorot, InitScheme, InitTable, Normal, Uniform
from isopix.model.kv_cache import AttentionCache, KVCache
from isopix.model.mlp import MLPSpec, TwoLayerMLPSpec
from isopix.model.norms import NormSpec, RMSNormSpec


@register("transformer")
class TransformerSpec(BlockSpec):
    """a = h + attention(norm1(h)); h' = a + mlp(norm2(a)) (iGPT section 2.2). The defaults are those
    of OpenAI's norm and activation, without biases.
    """

    hub_tags: ClassVar[tuple[str, ...]] = ("image-gpt", "imagegpt")
    accepts_subsets: ClassVar[bool] = True

    heads: Size = 8
    """Attention heads; they divide the width."""
    attention_bias: bool = False
    """Whether query, key, value and output matrices have biases."""
    qkv_bias: bool | None = None
    """Whether query, key and value have biases, where the output differs; null: `attention_bias`."""
    dropout: Dropout = 0.0
    """Dropout of what both branches add to the residual stream, in training."""
    attention_dropout: Dropout = 0.0
    """Dropout of attention weights, in training."""
    norm: NormSpec = field(default_factory=RMSNormSpec)
    """Norm before both branches, and of the backbone's output."""
    mlp: MLPSpec = field(default_factory=lambda: TwoLayerMLPSpec(activation="quick_gelu", bias=False))
    """MLP at each position."""

    def label(self) -> str:
        heads = f"{self.heads} head{'s' * (self.heads != 1)}"
        return f"transformer, {heads}, {self.norm.label()}, {self.mlp.label()}"

    def build(self, grid: Grid, width: int, causal: bool) -> "TransformerBlock":
        """Return one block, whatever the grid. Raises ValueError if heads do not divide width."""
        return TransformerBlock(self, width, causal)

    def flops(self, grid: Grid, width: int, causal: bool) -> int:
        """Return the FLOPs of a forward pass per image; causal attention counts the half that it covers."""
        keys = (grid.positions + 1) / 2 if causal else grid.positions
        matrices = 8 * width * width + self.mlp.flops_per_token(width)
        return int(grid.positions * (matrices + 4 * keys * width))

    def init(self, scheme: InitScheme) -> InitTable:
        return attention_init(scheme, self.heads)


class TransformerBlock(Block):
    has_attention_weights: ClassVar[bool] = True
    supports_cache: ClassVar[bool] = True

    def __init__(self, spec: TransformerSpec, width: int, causal: bool):
        super().__init__()
        self.norm1 = spec.norm.build(width)
        self.attention = Attention(
            width, spec.heads, causal, spec.attention_bias, spec.qkv_bias, spec.attention_dropout
        )
        self.norm2 = spec.norm.build(width)
        self.mlp = spec.mlp.build(width)
        self.dropout = nn.Dropout(spec.dropout)

    def forward(self, tokens: Tokens) -> Tokens:
        tokens = tokens + self.dropout(self.attention(self.norm1(tokens)))
        return tokens + self.dropout(self.mlp(self.norm2(tokens)))

    @property
    def supports_forward_at(self) -> bool:
        return not self.attention.causal

    def forward_at(self, tokens: Tokens, positions: PositionIndices) -> SelectedTokens:
        selected = torch.take_along_dim(tokens, positions[..., None], 1)
        selected = selected + self.dropout(self.attention.forward_queries(self.norm1(tokens), positions))
        return selected + self.dropout(self.mlp(self.norm2(selected)))

    def attention_axes(self, grid: Grid) -> list[AttentionAxis]:
        return [AttentionAxis(grid)]

    def attention_weights(self, tokens: Tokens) -> Iterator[AttentionWeights]:
        yield self.attention.weights(self.norm1(tokens))

    def new_cache(self, positions: int) -> AttentionCache:
        return AttentionCache(positions)

    def forward_cached(self, tokens: Tokens, cache: KVCache) -> Tokens:
        assert isinstance(cache, AttentionCache), "from new_cache"
        tokens = tokens + self.attention.forward_cached(self.norm1(tokens), cache)
        return tokens + self.mlp(self.norm2(tokens))


def attention_init(scheme: InitScheme, heads: int) -> InitTable:
    """Return how the matrices of an attention start that its block keeps as `attention`."""
    if scheme == "openai":
        qkv = Normal(lambda width, depth: 1 / math.sqrt(width))
        out = Normal(lambda width, depth: 1 / math.sqrt(width * depth))
        return {"attention.qkv": qkv, "attention.out": out}
    if scheme == "keras_mha":
        # Kernels [D heads size] and [heads size D], of which Keras takes all but the last two axes for taps.
        qkv_limit = Uniform(lambda width, depth: math.sqrt(6 / width / (heads + width / heads)))
        return {
            "attention.qkv": qkv_limit,
            "attention.out": Uniform(lambda width, depth: math.sqrt(6 / width / (1 + heads))),
        }
    # Query, key and value are a matrix each: Glorot's limit is that of [D D].
    qkv_glorot = Uniform(lambda width, depth: math.sqrt(3 / width))
    return {"attention.qkv": qkv_glorot, "attention.out": Glorot()}
