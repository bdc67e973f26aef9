"""Blocks: their base classes, and the transformer, attention and an MLP."""

import abc
import math
from collections.abc import Iterator
from dataclasses import field
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import nn
from torch.nn import functional as F

from isopix.core.choices import Dropout, PositiveNumber, Size
from isopix.core.registry import register
from isopix.core.types import Grid, PositionIndices, SelectedTokens, Tokens
from isopix.model.attention import Attention, AttentionAxis, AttentionWeights, Seen
from isopix.model.caches import AttentionCache, Buffer, KVCache
from isopix.model.init import ROOT, Glorot, InitScheme, InitTable, ModelPart, Normal, Uniform, Zeros
from isopix.model.mlp import MLPSpec, Norm, NormSpec, RMSNormSpec, TwoLayerMLPSpec
from isopix.model.positions import PositionEmbeddingSpec


class Block(nn.Module, abc.ABC):
    """One block. The capabilities are false unless a block declares them and has their methods."""

    has_attention_weights: ClassVar[bool] = False  # `attention_axes` and `attention_weights`

    norm1: Norm  # the first norm
    if TYPE_CHECKING:

        def __call__(self, tokens: Tokens) -> Tokens: ...

    @abc.abstractmethod
    def forward(self, tokens: Tokens) -> Tokens:
        """Return the tokens after the block; all of its parts lie on residual paths."""

    @property
    def first_norm(self) -> Norm:
        """The norm whose outputs are probed as the features of the layer before."""
        return self.norm1

    @property
    def supports_forward_at(self) -> bool:
        """Whether it has `forward_at`, as it was built."""
        return False

    def forward_at(self, tokens: Tokens, positions: PositionIndices) -> SelectedTokens:
        """Return the outputs of `forward` at these positions only, at less cost."""
        raise NotImplementedError

    def set_drop_path(self, rate: float) -> None:
        """Drop the residual branches of random images in training. Raises ValueError if it cannot."""
        if rate:
            raise ValueError(f"drop_path is not possible with {type(self).__name__}")

    def set_rotation(self, positions: PositionEmbeddingSpec, grid: Grid) -> None:
        """Rotate queries and keys by `positions.rotation`. Raises ValueError for a block without queries."""
        name = type(self).__name__
        raise ValueError(f"positions={positions.kind} rotates queries and keys, which {name} does not have")

    def set_window(self, rows: int, grid: Grid) -> None:
        """Have causal attention see as many positions as these rows hold. Raises ValueError if it cannot."""
        raise ValueError(f"attention_rows is not possible with {type(self).__name__}")

    def attention_axes(self, grid: Grid) -> list[AttentionAxis]:
        """Return what each of its attentions covers, in order."""
        raise NotImplementedError

    def attention_weights(self, tokens: Tokens) -> Iterator[AttentionWeights]:
        """Yield the weights of each of its attentions, in order, for the tokens that enter the block."""
        raise NotImplementedError

    def new_cache(self, positions: int) -> KVCache:
        """Return an empty cache for a sequence of this length."""
        return KVCache(Buffer(positions), Buffer(positions))

    def forward_cached(self, tokens: Tokens, cache: KVCache) -> Tokens:
        """Return the outputs of `forward` at the next positions; `cache` holds the earlier ones.

        This one, of any causal block, computes all positions again each time, which is slow.
        """
        kept, begin = cache.first, cache.first.count
        past = kept.extend(tokens)
        outputs = self(F.pad(past, (0, 0, 0, kept.positions - kept.count)))
        return outputs[:, begin : kept.count]


class BlockSpec(ModelPart, noun="block"):
    """Settings of a block; `hub_tags` as of a codec."""

    hub_tags: ClassVar[tuple[str, ...]] = ()
    # Whether it accepts any set of positions, not the whole grid in raster order alone.
    accepts_subsets: ClassVar[bool] = False

    norm: NormSpec = field(default_factory=RMSNormSpec)
    """Norm of the block, and of the backbone's output."""

    @abc.abstractmethod
    def build(self, grid: Grid, width: int, causal: bool) -> Block:
        """Return one block. Raises ValueError for a width or grid that it cannot have."""

    @abc.abstractmethod
    def flops(self, grid: Grid, width: int, causal: bool) -> int:
        """Return the FLOPs of a forward pass per image; a multiply-add counts as two."""


@register("transformer")
class TransformerSpec(BlockSpec):
    """a = h + attention(norm1(h)); h' = a + mlp(norm2(a)) (iGPT section 2.2), as OpenAI's without biases."""

    hub_tags: ClassVar[tuple[str, ...]] = ("image-gpt", "imagegpt")
    accepts_subsets: ClassVar[bool] = True

    heads: Size = 8
    """Number of attention heads; must divide the width."""
    attention_bias: bool = False
    """Whether query, key, value and output matrices have biases."""
    qkv_bias: bool | None = None
    """Whether query, key and value have biases; null: as `attention_bias`."""
    dropout: Dropout = 0.0
    """Dropout of the outputs of both residual branches."""
    attention_dropout: Dropout = 0.0
    """Dropout of attention weights."""
    qk_norm_scale: PositiveNumber | None = None
    """RMS norm of queries and keys, with this scale of their products instead of 1 / sqrt(width / heads);
    null: none.
    """
    norm: NormSpec = field(default_factory=RMSNormSpec)
    """Norm before both branches, and of the backbone's output."""
    mlp: MLPSpec = field(default_factory=lambda: TwoLayerMLPSpec(activation="quick_gelu", bias=False))
    """MLP at each position."""

    def label(self) -> str:
        heads = f"{self.heads} head{'s' * (self.heads != 1)}"
        return f"transformer, {heads}, {self.norm.label()}, {self.mlp.label()}"

    def build(self, grid: Grid, width: int, causal: bool) -> "TransformerBlock":
        return TransformerBlock(self, width, causal)

    def flops(self, grid: Grid, width: int, causal: bool) -> int:
        """Return the FLOPs of a forward pass per image; causal attention counts the half that it covers."""
        keys = (grid.positions + 1) / 2 if causal else grid.positions
        matrices = 8 * width * width + self.mlp.flops_per_token(width)
        return int(grid.positions * (matrices + 4 * keys * width))

    def init(self, scheme: InitScheme) -> InitTable:
        return attention_init(scheme, self.heads)


class BranchDropout(nn.Dropout):
    """Dropout of what a branch adds to the residual stream, at rate `drop_path` of all of it for an image.

    The branch of the other images is divided by 1 - drop_path (stochastic depth, Huang et al. 2016).
    """

    drop_path = 0.0

    def forward(self, branch: Tokens) -> Tokens:
        branch = super().forward(branch)
        if not (self.training and self.drop_path):
            return branch
        return branch * F.dropout(branch.new_ones(len(branch), 1, 1), self.drop_path)


class TransformerBlock(Block):
    has_attention_weights: ClassVar[bool] = True

    def __init__(self, spec: TransformerSpec, width: int, causal: bool):
        super().__init__()
        self.norm1 = spec.norm.build(width)
        self.attention = Attention(
            width,
            spec.heads,
            causal,
            spec.attention_bias,
            spec.qkv_bias,
            spec.attention_dropout,
            spec.qk_norm_scale,
        )
        self.norm2 = spec.norm.build(width)
        self.mlp = spec.mlp.build(width)
        self.dropout = BranchDropout(spec.dropout)

    def forward(self, tokens: Tokens, seen: Seen | None = None) -> Tokens:
        tokens = tokens + self.dropout(self.attention(self.norm1(tokens), seen))
        return tokens + self.dropout(self.mlp(self.norm2(tokens)))

    def set_drop_path(self, rate: float) -> None:
        self.dropout.drop_path = rate

    def set_rotation(self, positions: PositionEmbeddingSpec, grid: Grid) -> None:
        attention = self.attention
        attention.rotation = positions.rotation(grid, attention.out.in_features // attention.heads)

    def set_window(self, rows: int, grid: Grid) -> None:
        self.attention.window = rows * grid.cols

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
        out = Normal(lambda width, depth: 1 / math.sqrt(width * depth))
        return {"attention.qkv": ROOT, "attention.out": out}
    if scheme == "zero_residual":
        return {"attention.qkv": ROOT, "attention.out": Zeros()}
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
