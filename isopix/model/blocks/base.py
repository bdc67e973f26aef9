"""Base classes of all blocks: modules from tokens to tokens of the same shape, and their settings."""

import abc
from collections.abc import Iterator
from dataclasses import field
from typing import TYPE_CHECKING, ClassVar

from torch import nn

from isopix.core.types import Grid, PositionIndices, SelectedTokens, Tokens
from isopix.model.attention import AttentionAxis, AttentionWeights
from isopix.model.init import ModelPart
from isopix.model.kv_cache import Buffer, KVCache
from isopix.model.mlp import Norm, NormSpec, RMSNormSpec


class Block(nn.Module, abc.ABC):
    """One block. The capabilities are false unless a block declares them and has their methods."""

    has_attention_weights: ClassVar[bool] = False  # `attention_axes` and `attention_weights`
    supports_cache: ClassVar[bool] = False  # `forward_cached`, if it is causal

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
        """Return the outputs of `forward` at the next positions; `cache` holds the earlier ones."""
        raise NotImplementedError


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
