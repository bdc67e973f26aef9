"""Backbone: stem, masking, position embeddings and blocks; what is used after pre-training."""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from isopix.core import choices
from isopix.core.device import Precision
from isopix.core.types import Grid, Mask, PositionIndices, SelectedTokens, Tokens
from isopix.model.attention import AttentionAxis, AttentionWeights, Seen
from isopix.model.blocks.transformer import Block
from isopix.model.caches import KVCache
from isopix.model.embedding_conv import ConvCache, EmbeddingConv
from isopix.model.masking import Masking, after_prefix, group_by_length, sum_components, visible_positions
from isopix.model.mlp import Norm
from isopix.model.positions import PositionEmbedding
from isopix.model.stems.pixels import Inputs, Stem

FeatureKind = choices.FeatureKind
HeadInput = Float[Tensor, "B N _"]
HiddenState = Float[Tensor, "B _ D"]  # of all positions or of some, with or without a class token before them


class Backbone(nn.Module):
    """Inputs (codes if `stem.reads_codes`, else images) to hidden states 0..L, a class token first if any.

    The normed features of a layer are its state after the *next* block's first norm, those of the last layer
    after the final norm (iGPT section 2.4).
    """

    if TYPE_CHECKING:

        def __call__(
            self, inputs: Inputs, mask: Mask | None = None, num_visible: int | None = None
        ) -> Tokens: ...

    def __init__(  # noqa: PLR0913  every part of the network
        self,
        grid: Grid,
        stem: Stem,
        masking: Masking,
        positions: PositionEmbedding,
        blocks: Sequence[Block],
        norm: Norm,
        *,
        conv: EmbeddingConv | None = None,
        cls_token: nn.Parameter | None = None,
        pos_norm: Norm | None = None,
        decoder: nn.Module | None = None,
        dropout: float = 0.0,
    ):
        """Compose the parts; a block may stand in `blocks` several times. `cls_token` is a vector [D], and
        `pos_norm` normalizes the position embeddings that are added to dropped positions, unless a `decoder`
        decodes them; in training, hidden state 0 is dropped with probability `dropout`.
        """
        super().__init__()
        self.grid = grid
        self.stem, self.masking, self.positions = stem, masking, positions
        own = list(dict.fromkeys(blocks))
        self.blocks = cast("Sequence[Block]", nn.ModuleList(own))
        self._order = [own.index(block) for block in blocks]
        self.norm, self.conv, self.cls_token, self.pos_norm = norm, conv, cls_token, pos_norm
        self.decoder = decoder
        self.dropout = nn.Dropout(dropout)
        self.recompute = False  # whether the backward pass computes each block again, instead of keeping it

    @property
    def depth(self) -> int:
        """The number of layers L, tied blocks counted as often as they run."""
        return len(self._order)

    @property
    def layers(self) -> list[Block]:
        return [self.blocks[number] for number in self._order]

    @property
    def num_prefix_tokens(self) -> int:
        """The number of tokens before the positions: 1 with a class token."""
        return int(self.cls_token is not None)

    def forward(self, inputs: Inputs, mask: Mask | None = None, num_visible: int | None = None) -> Tokens:
        """Return what the head reads at every position."""
        for tokens in self.hidden_states(inputs, mask, num_visible):  # noqa: B007
            pass
        return self.decoder_input(self.norm(tokens), mask)

    def embed(self, inputs: Inputs, mask: Mask | None = None) -> HiddenState:
        return next(self.hidden_states(inputs, mask))

    def embed_each(self, inputs: Inputs, mask: Mask | None = None) -> Tokens:
        """Return what hidden state 0 is made of, an embedding of each position."""
        return self.positions(self.masking(self.stem(inputs), mask))

    def hidden_states(
        self, inputs: Inputs, mask: Mask | None = None, num_visible: int | None = None
    ) -> Iterator[HiddenState]:
        """Yield the L+1 hidden states.

        With `num_visible`, the same of every image, dropping masked positions takes one run in fixed shapes.
        """
        if mask is None or not self.masking.drops_tokens:
            tokens = self.embed_each(inputs, mask)
            tokens = tokens if self.conv is None else self.conv(tokens)
            seen = after_prefix(mask) if mask is not None and self.masking.has_prefix else None
            yield from self._run_blocks(self._with_cls_token(tokens), seen)
            return
        if num_visible is not None:
            yield from self._run_visible(inputs, visible_positions(mask, num_visible))
            return
        groups = group_by_length(mask)
        order = torch.cat([group.images for group in groups]).argsort()
        parts = [self._run_visible(inputs[group.images], group.positions) for group in groups]
        for states in zip(*parts, strict=True):
            yield torch.cat(states)[order]

    def features(
        self, inputs: Inputs, mask: Mask | None = None, *, kind: FeatureKind = "normed"
    ) -> Iterator[HiddenState]:
        """Yield the features of every layer 0..L: normed (iGPT section 2.4) or the residual stream."""
        for norm, state in zip(self._norms(), self.hidden_states(inputs, mask), strict=True):
            yield norm(state) if kind == "normed" else state

    def forward_intermediates(
        self,
        layers: Sequence[int],
        inputs: Inputs,
        mask: Mask | None = None,
        num_visible: int | None = None,
        *,
        kind: FeatureKind = "normed",
    ) -> list[HiddenState]:
        """Return the features of these layers; no block after the last of them is run."""
        norms, states = self._norms(), self.hidden_states(inputs, mask, num_visible)
        found = {
            layer: norms[layer](state) if kind == "normed" else state
            for layer, state in enumerate(islice(states, max(layers) + 1))
            if layer in layers
        }
        return [found[layer] for layer in layers]

    def truncated(self, layer: int) -> "Backbone":
        """Return the backbone of the first `layer` blocks, shared, up to the features of this layer.

        Raises ValueError for a layer that does not exist.
        """
        if not 0 <= layer <= self.depth:
            raise ValueError(f"layer {layer} does not exist; layers are 0 to {self.depth}")
        return self._with(self.masking, self.layers[:layer], self._norms()[layer])

    def with_masking(self, masking: Masking) -> "Backbone":
        return self._with(masking, self.layers, self.norm)

    def with_blocks(self, blocks: Sequence[Block]) -> "Backbone":
        return self._with(self.masking, blocks, self.norm)

    @property
    def has_attention_weights(self) -> bool:
        return all(block.has_attention_weights for block in self.blocks)

    def attention_weights(self, inputs: Inputs, mask: Mask | None = None) -> Iterator[AttentionWeights]:
        """Yield the weights of every attention, prefix tokens first, one in memory at a time."""
        states = self.hidden_states(inputs, mask)
        for block, state in zip(self.layers, states, strict=False):  # the last state enters no block
            yield from block.attention_weights(state)

    def attention_axes(self) -> Iterator[tuple[int, AttentionAxis]]:
        """Yield the layer, from 1, of every attention, first to last, and the positions that it covers."""
        for layer, block in enumerate(self.layers, start=1):
            for axis in block.attention_axes(self.grid):
                yield layer, axis

    @property
    def supports_forward_at(self) -> bool:
        whole = self.masking.drops_tokens or self.masking.has_prefix
        return not whole and self.depth > 0 and self.layers[-1].supports_forward_at

    def forward_at(self, inputs: Inputs, mask: Mask | None, positions: PositionIndices) -> SelectedTokens:
        """Return the outputs of `forward` at these positions only, [B M D], at less cost."""
        before = next(islice(self.hidden_states(inputs, mask), self.depth - 1, None))
        return self.norm(self.layers[-1].forward_at(before, positions + self.num_prefix_tokens))

    def decoder_input(self, tokens: HiddenState, mask: Mask | None) -> HeadInput:
        """Return what the head reads: the normed features; at dropped positions norm(u) + norm'(position
        embedding) of the pooled vector u (PatchFormer section 2.1). Behind one norm of their sum the position
        would be lost, as u is up to a hundred times longer.
        """
        if self.decoder is not None:
            unmasked = torch.zeros_like(self.patch_tokens(tokens)[..., :1], dtype=torch.bool)
            return cast("HeadInput", self.decoder(tokens, unmasked if mask is None else mask))
        tokens = self.patch_tokens(tokens)
        if mask is None or self.pos_norm is None:
            return tokens
        embedding = self.pos_norm(self.positions(torch.zeros_like(tokens[:1])))
        return torch.where(mask.any(-1, keepdim=True), tokens + embedding, tokens)

    def patch_tokens(self, tokens: HiddenState) -> Tokens:
        return tokens[:, self.num_prefix_tokens :]

    def new_caches(self, precision: Precision | None = None) -> list[KVCache]:
        """Return an empty cache for each layer, before them one of the convolution if there is one; with
        bf16, keys and values are rounded to it.
        """
        own = [] if self.conv is None else [ConvCache()]
        caches = [*own, *(block.new_cache(self.grid.positions) for block in self.layers)]
        if precision == "bf16":
            for cache in caches:
                cache.keep_in(torch.bfloat16)
        return caches

    def embed_next(self, inputs: Inputs, position: int) -> Tokens:
        """Return `embed_each` of a shifted sequence at a position, from the inputs of the one before."""
        return self.positions.from_position(sum_components(self.stem(inputs)), position)

    def decode_step(self, tokens: Tokens, caches: Sequence[KVCache]) -> Tokens:
        """Return the last normed features at the next positions (a run, then one each) of `embed_each`."""
        if self.conv is not None:
            first, *caches = caches
            assert isinstance(first, ConvCache), "from new_caches"
            tokens = self.conv.forward_cached(tokens, first)
        for block, cache in zip(self.layers, caches, strict=True):
            tokens = block.forward_cached(tokens, cache)
        return self.norm(tokens)

    def _with(self, masking: Masking, blocks: Sequence[Block], norm: Norm) -> "Backbone":
        parts = (self.grid, self.stem, masking, self.positions, blocks, norm)
        backbone = Backbone(*parts, conv=self.conv, cls_token=self.cls_token)
        # In the same mode: a new dropout would be in training mode.
        backbone.dropout, backbone.training = self.dropout, self.training
        return backbone

    def _with_cls_token(self, tokens: Tokens) -> HiddenState:
        if self.cls_token is None:
            return tokens
        return torch.cat([self.cls_token.to(tokens.dtype).expand(len(tokens), 1, -1), tokens], 1)

    def _run_blocks(self, tokens: HiddenState, seen: Seen | None = None) -> Iterator[HiddenState]:
        tokens = self.dropout(tokens)
        yield tokens
        recompute, given = self.recompute and torch.is_grad_enabled(), () if seen is None else (seen,)
        for block in self.layers:
            run = partial(checkpoint, block, use_reentrant=False) if recompute else block
            tokens = run(tokens, *given)
            yield tokens

    def _run_visible(self, inputs: Inputs, positions: PositionIndices) -> Iterator[HiddenState]:
        tokens = sum_components(self.stem(self.stem.gather(inputs, positions, self.grid)))
        for state in self._run_blocks(self._with_cls_token(self.positions.at(tokens, positions))):
            yield self._scatter(state, positions)

    def _scatter(self, state: HiddenState, positions: PositionIndices) -> HiddenState:
        """Return the state at every position, at masked ones the class token, or without one the mean."""
        visible = self.patch_tokens(state)
        pooled = visible.sum(1) / max(1, visible.shape[1]) if self.cls_token is None else state[:, 0]
        everywhere = pooled[:, None].expand(-1, self.grid.positions, -1).to(visible.dtype)
        full = everywhere.scatter(1, positions[..., None].expand_as(visible), visible)
        return full if self.cls_token is None else torch.cat([state[:, :1], full], 1)

    def _norms(self) -> list[Norm]:
        """The norm of the features of each layer 0..L: the next block's first, then the final one."""
        return [*(block.first_norm for block in self.layers), self.norm]
