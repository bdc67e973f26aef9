"""Image GPT's objective, codec and data with newer components and Muon.

Command:  isopix pretrain modern.tiny --data cifar10 --out runs/modern
          isopix pretrain modern.small --data cifar10 --out runs/modern-small

Differences from `igpt.tiny`: embeddings that start closer for similar colors; a causal depthwise convolution
of them; rotary position embeddings in two dimensions; attention to three rows in all blocks but the middle
one; Muon; a linear end of the learning rate; residual branches that start at zero.
"""

from isopix.model.blocks.transformer import TransformerSpec
from isopix.model.positions import RotaryPositionEmbeddingSpec
from isopix.model.spec import ModelSpec
from isopix.model.stems.pixels import ColorEmbeddingSpec
from isopix.recipes.igpt import tiny as igpt_tiny
from isopix.recipes.recipe import PAPERS, Recipe
from isopix.train.config import LinearEndSchedule
from isopix.train.muon import Muon


def tiny() -> Recipe:
    """Autoregressive, 32x32: igpt.tiny with newer components."""
    return _modern("modern.tiny", depth=4, width=128, heads=2)


def small() -> Recipe:
    """Autoregressive, 32x32: 8 blocks of width 256, 512 colors."""
    return _modern("modern.small", depth=8, width=256, heads=4)


def _modern(name: str, *, depth: int, width: int, heads: int) -> Recipe:
    return igpt_tiny().updated(
        name=name,
        model=ModelSpec(
            stem=ColorEmbeddingSpec(),
            positions=RotaryPositionEmbeddingSpec(),
            embedding_conv=True,
            block=TransformerSpec(heads=heads),
            attention_rows=3,
            depth=depth,
            width=width,
            init="zero_residual",
        ),
        optimizer=Muon(lr=0.02, momentum=0.9, adam_lr=0.006),
        schedule=LinearEndSchedule(warmup=0.05),
    )


PAPERS["modern"] = (tiny, small)
