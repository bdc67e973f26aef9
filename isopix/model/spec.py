"""ModelSpec: the parts and sizes of a network, and the network that they describe."""

from dataclasses import field
from typing import Protocol, runtime_checkable

import torch
from torch import nn

from isopix.codecs import patches as patch_codecs  # noqa: F401  registers their kinds
from isopix.codecs.base import Codec, CodecSpec
from isopix.codecs.palette_spec import PaletteSpec
from isopix.core.choices import Depth, Dropout, Size
from isopix.core.config import config
from isopix.model import decoder  # noqa: F401  registers it
from isopix.model.backbone import Backbone
from isopix.model.blocks import axial, convolution, mixer  # noqa: F401  registers them
from isopix.model.blocks.transformer import BlockSpec, TransformerSpec
from isopix.model.embedding_conv import EmbeddingConv
from isopix.model.heads import HeadSpec, LinearHeadSpec
from isopix.model.init import EMBEDDING, InitScheme, InitTable, initialize
from isopix.model.masking import MaskingSpec
from isopix.model.network import Network, seeded_construction, unsaved_tensors
from isopix.model.positions import (
    LearnedPositionEmbeddingSpec,
    NoPositionEmbeddingSpec,
    PositionEmbeddingSpec,
)
from isopix.model.stems import patches  # noqa: F401  registers them
from isopix.model.stems.pixels import StemSpec, TokenEmbeddingSpec


@runtime_checkable
class ObjectiveFacts(Protocol):
    """Properties of the objective that the architecture depends on."""

    @property
    def kind(self) -> str: ...
    @property
    def causal(self) -> bool: ...
    @property
    def corruption(self) -> MaskingSpec: ...
    @property
    def can_sample(self) -> bool: ...
    @property
    def masks_single_codes(self) -> bool: ...
    @property
    def label_smoothing(self) -> float: ...


@config
class ModelSpec:
    """The network; the defaults are Image GPT's (iGPT section 3)."""

    codec: CodecSpec = field(default_factory=PaletteSpec)
    """Discrete codes of an image: the targets, and the inputs of `token_embedding`."""
    stem: StemSpec = field(default_factory=TokenEmbeddingSpec)
    """Input layer: from the pixels or codes of a position to vectors."""
    positions: PositionEmbeddingSpec = field(default_factory=LearnedPositionEmbeddingSpec)
    """Position embeddings."""
    embedding_conv: bool = False
    """Whether a depthwise convolution of 3 rows x 5 columns adds near embeddings to each; causally, two rows
    above the position, and what is before it in its own.
    """
    class_token: bool = False
    """Whether to prepend a learned class token to the positions (ViT section 3.1)."""
    embedding_dropout: Dropout = 0.0
    """Dropout of the first block's input."""
    block: BlockSpec = field(default_factory=TransformerSpec)
    """Block of the network."""
    attention_rows: Size | None = None
    """Rows of positions that causal attention covers in all blocks but the middle one, its own included;
    null: all.
    """
    drop_path: Dropout = 0.0
    """Stochastic depth: probability of dropping the branches of the last block for an image; it increases
    linearly from 0 in the first block.
    """
    depth: Depth
    """Number of blocks."""
    width: Size
    """Embedding dimension."""
    tie_blocks: bool = False
    """Whether all blocks share the weights of one (ALBERT)."""
    head: HeadSpec = field(default_factory=LinearHeadSpec)
    """Output layer: from tokens to logits."""
    init: InitScheme = "openai"
    """Initialization: `openai` is iGPT's code, `keras` and `keras_mha` Keras's defaults (`keras_mha` of its
    attention layer), `vit` ViT's code; `zero_residual` starts both branches of a block at zero.
    """

    def build(self, codec: Codec, objective: ObjectiveFacts, generator: torch.Generator) -> Network:
        """Return the initialized network; what its modules draw when made depends on the seed alone."""
        seed = generator.initial_seed()
        with seeded_construction(seed):
            network = self.assemble(codec, objective)
        tables = self._init_tables(objective.corruption)
        initialize(network, tables, width=self.width, depth=self.depth, generator=generator)
        self._check_unsaved(network, objective, seed + 1)
        return network

    def _check_unsaved(self, network: Network, objective: ObjectiveFacts, seed: int) -> None:
        unsaved = {name: each for name, each in unsaved_tensors(network).items() if name[:6] != "codec."}
        with seeded_construction(seed):
            again = unsaved_tensors(self.assemble(network.codec, objective)) if unsaved else {}
        for name, tensor in unsaved.items():
            if name not in again or not torch.equal(tensor.nan_to_num(), again[name].nan_to_num()):
                raise ValueError(
                    f"tensor '{name}' differs each time that the network is made and would not be saved; "
                    "register it as a persistent buffer, or draw it with a generator of a fixed seed"
                )

    def assemble(self, codec: Codec, objective: ObjectiveFacts) -> Network:
        """Return the network without initialization; under `torch.device("meta")` it takes no memory."""
        self._check_parts(codec, objective)
        grid, width, corruption = codec.grid, self.width, objective.corruption
        distinct, times = (1, self.depth) if self.tie_blocks else (self.depth, 1)
        blocks = [self.block.build(grid, width, objective.causal) for _ in range(distinct)]
        for layer, block in enumerate(blocks):
            block.set_drop_path(self.drop_path * layer / max(1, self.depth - 1))
            if self.positions.rotates:
                block.set_rotation(self.positions, grid)
            if self.attention_rows and layer != (self.depth - 1) // 2:
                block.set_window(self.attention_rows, grid)
        backbone = Backbone(
            grid,
            self.stem.build(codec, width),
            corruption.build(width),
            self.positions.build(grid, width),
            blocks * times,
            self.block.norm.build(width),
            conv=EmbeddingConv(grid, width, objective.causal) if self.embedding_conv else None,
            cls_token=nn.Parameter(torch.zeros(width)) if self.class_token else None,
            pos_norm=corruption.build_pos_norm(self.block.norm, width),
            decoder=corruption.build_decoder(self.block, grid, width),
            dropout=self.embedding_dropout,
        )
        return Network(codec, backbone, self.head.build(codec, corruption.decoded_width(width)))

    def _init_tables(self, corruption: MaskingSpec) -> dict[str, InitTable]:
        """How each part starts, in the order in which they are drawn."""
        norms = {f"*norm.{key}": draw for key, draw in self.block.norm.init_table(self.init).items()}
        return {
            "backbone.blocks": self.block.init_table(self.init),
            "backbone.masking": corruption.init_table(self.init),
            "backbone.decoder": {**self.block.init_table(self.init), **corruption.init_table(self.init)},
            "backbone.positions": self.positions.init_table(self.init),
            "backbone.stem": self.stem.init_table(self.init),
            # ViT's class token starts at 0 and has a position embedding; ours is their sum, one vector. At 0
            # it would stay 0 in the first norm, whose gradient there is 1 / sqrt(epsilon).
            "backbone": {**norms, "cls_token": EMBEDDING[self.init]},
            "head": self.head.init_table(self.init),
        }

    def _check_attention(self, objective: ObjectiveFacts) -> None:
        if self.attention_rows and (self.tie_blocks or not objective.causal):
            raise ValueError("attention_rows needs causal attention in blocks that are not tied")
        whole = self.class_token or self.embedding_conv or not isinstance(self.block, TransformerSpec)
        if objective.corruption.kind == "prefix" and whole:
            raise ValueError("objective=prefix needs block=transformer, and no class_token or embedding_conv")

    def _check_parts(self, codec: Codec, objective: ObjectiveFacts) -> None:
        self._check_attention(objective)
        corruption = objective.corruption
        if self.class_token and objective.causal:
            why = "causal attention shows it no position"
            raise ValueError(f"class_token needs a network that is not causal: {why}")
        whole = [] if self.block.accepts_subsets else [f"block {self.block.kind}"]
        whole += [f"positions {self.positions.kind}"] * self.positions.rotates
        whole += ["embedding_conv=true"] * self.embedding_conv
        whole += ["attention_rows"] * (self.attention_rows is not None)
        if (self.class_token or corruption.drops_tokens) and whole:
            what = "class_token" if self.class_token else f"objective.corruption={corruption.kind}"
            raise ValueError(f"{what} is not possible with {whole[0]}, which needs the whole grid")
        added = not isinstance(self.positions, NoPositionEmbeddingSpec) and not self.positions.rotates
        if self.init == "zero_residual" and corruption.kind == "zero" and not added:
            zero = "masked positions are zero, and stay so in branches that start at zero"
            raise ValueError(
                f"{zero}; use objective.corruption=mask_token, model.positions=learned or init=openai"
            )
        if self.drop_path and self.tie_blocks:
            raise ValueError("drop_path rises with the depth, and with tie_blocks=true all blocks are one")
        components = self.stem.num_components(codec)
        if objective.masks_single_codes and codec.num_codes not in (1, components):
            raise ValueError(
                f"a mask of single codes needs a stem with a component for each of {codec.num_codes} codes; "
                f"{self.stem.kind} has {components}"
            )
        if not self.head.categorical and (objective.can_sample or objective.label_smoothing):
            raise ValueError(
                f"head {self.head.kind} gives no probabilities of codes, which objective {objective.kind} "
                f"with label_smoothing={objective.label_smoothing} needs; use objective=masked, smoothing 0"
            )
