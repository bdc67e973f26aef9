"""Decoders: from the features of the blocks to what the head reads, of masked and of next positions."""

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import nn

from isopix.core.choices import Depth, Size
from isopix.core.registry import register
from isopix.core.types import Grid, Mask, Tokens
from isopix.model.backbone import HeadInput, HiddenState
from isopix.model.blocks.transformer import BlockSpec, TransformerSpec
from isopix.model.init import EMBEDDING, Glorot, InitScheme, InitTable
from isopix.model.masking import DropMasking, MaskingSpec, PrefixMasking
from isopix.model.positions import SinCosPositionEmbeddingSpec


@register("decoder", "tokens dropped, decoder")
class DecoderMaskingSpec(MaskingSpec):
    """Masked positions are dropped before the stem; blocks of the same kind decode them from the features of
    the visible ones and a mask token, with sincos position embeddings (MAE, He et al. 2022, section 3).
    """

    drops_tokens: ClassVar[bool] = True

    decoder_depth: Depth = 8
    """Number of blocks of the decoder."""
    decoder_width: Size = 512
    """Embedding dimension of the decoder."""
    decoder_heads: Size = 16
    """Number of attention heads of the decoder; must divide its width."""

    def build(self, width: int) -> DropMasking:
        return DropMasking()

    def decoded_width(self, width: int) -> int:
        return self.decoder_width

    def build_decoder(self, block: BlockSpec, grid: Grid, width: int) -> "Decoder":
        return Decoder(self, self._block(block), grid, width)

    def decoder_flops(self, block: BlockSpec, grid: Grid, width: int) -> int:
        embed = 2 * grid.positions * width * self.decoder_width
        return embed + self.decoder_depth * self._block(block).flops(grid, self.decoder_width, causal=False)

    def init(self, scheme: InitScheme) -> InitTable:
        return {"token": EMBEDDING[scheme], "embed": Glorot()}

    def _block(self, block: BlockSpec) -> BlockSpec:
        return replace(_transformer(block, self), heads=self.decoder_heads)


@register("prefix", "prefix attention")
class PrefixMaskingSpec(MaskingSpec):
    """No position is masked: each attends to the prefix and to all positions up to its own; without a mask,
    attention is bidirectional. MLPs predict from each position alone (AIM, El-Nouby et al. 2024).
    """

    head_depth: Depth = 12
    """Number of MLPs, with residuals, between the blocks and the linear head."""
    head_width: Size = 2048
    """Embedding dimension of these MLPs."""

    def build(self, width: int) -> PrefixMasking:
        return PrefixMasking()

    def decoded_width(self, width: int) -> int:
        return self.head_width

    def build_decoder(self, block: BlockSpec, grid: Grid, width: int) -> "MLPHead":
        return MLPHead(self, _transformer(block, self), grid, width)

    def decoder_flops(self, block: BlockSpec, grid: Grid, width: int) -> int:
        mlps = self.head_depth * _transformer(block, self).mlp.flops_per_token(self.head_width)
        return grid.positions * (2 * width * self.head_width + mlps)

    def init(self, scheme: InitScheme) -> InitTable:
        return {"embed": Glorot()}


def _transformer(block: BlockSpec, corruption: MaskingSpec) -> TransformerSpec:
    if not isinstance(block, TransformerSpec):
        raise ValueError(f"objective.corruption={corruption.kind} needs block transformer, not {block.kind}")
    return block


class MLPHead(nn.Module):
    if TYPE_CHECKING:

        def __call__(self, tokens: HiddenState, mask: Mask) -> HeadInput: ...

    def __init__(self, spec: PrefixMaskingSpec, block: TransformerSpec, grid: Grid, width: int):
        super().__init__()
        self.embed = nn.Linear(width, spec.head_width)
        self.positions = SinCosPositionEmbeddingSpec().build(grid, spec.head_width)
        self.layers = nn.ModuleList(ResidualMLP(block, spec.head_width) for _ in range(spec.head_depth))
        self.norm = block.norm.build(spec.head_width)

    def forward(self, tokens: HiddenState, mask: Mask) -> HeadInput:
        """Return what the head reads at every position."""
        tokens = self.positions(self.embed(tokens))
        for layer in self.layers:
            tokens = layer(tokens)
        return self.norm(tokens)


class ResidualMLP(nn.Module):
    def __init__(self, block: TransformerSpec, width: int):
        super().__init__()
        self.norm, self.mlp = block.norm.build(width), block.mlp.build(width)

    def forward(self, tokens: Tokens) -> Tokens:
        return tokens + self.mlp(self.norm(tokens))


class Decoder(nn.Module):
    if TYPE_CHECKING:

        def __call__(self, tokens: HiddenState, mask: Mask) -> HeadInput: ...

    def __init__(self, spec: DecoderMaskingSpec, block: BlockSpec, grid: Grid, width: int):
        super().__init__()
        self.embed = nn.Linear(width, spec.decoder_width)
        self.token = nn.Parameter(torch.zeros(spec.decoder_width))
        self.positions = SinCosPositionEmbeddingSpec().build(grid, spec.decoder_width)
        blocks = (block.build(grid, spec.decoder_width, causal=False) for _ in range(spec.decoder_depth))
        self.blocks = nn.ModuleList(blocks)
        self.norm = block.norm.build(spec.decoder_width)

    def forward(self, tokens: HiddenState, mask: Mask) -> HeadInput:
        """Return what the head reads at every position; `tokens` may have a class token before them."""
        tokens = self.embed(tokens)
        prefix, visible = tokens.tensor_split([tokens.shape[1] - mask.shape[1]], 1)
        masked = mask.any(-1, keepdim=True)
        decoded = self.positions(torch.where(masked, self.token.to(tokens.dtype), visible))
        tokens = torch.cat([prefix, decoded], 1)
        for block in self.blocks:
            tokens = block(tokens)
        return self.norm(tokens)[:, prefix.shape[1] :]
