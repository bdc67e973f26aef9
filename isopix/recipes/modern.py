"""Image GPT's objective, codec and data with the parts and optimizers of later years.

Command:  isopix pretrain modern.tiny --data cifar10 --out runs/modern
          isopix pretrain modern.small --data cifar10 --out runs/modern-small

Differences from `igpt.tiny`: rotary position embeddings in two dimensions; RMS norm of queries and keys;
squared ReLU; a local causal convolution before each attention; Muon with Adam for embeddings, head and norms;
a constant learning rate with a linear end; branches that start at zero.
"""

from isopix.model.blocks.local import LocalTransformerSpec
from isopix.model.mlp import TwoLayerMLPSpec
from isopix.model.positions import RotaryPositionEmbeddingSpec
from isopix.model.spec import ModelSpec
from isopix.recipes.igpt import tiny as igpt_tiny
from isopix.recipes.recipe import PAPERS, Recipe
from isopix.train.config import LinearEndSchedule
from isopix.train.muon import Muon

QK_NORM_SCALE = 0.12


def tiny() -> Recipe:
    """Autoregressive, 32x32: igpt.tiny with the parts of later years."""
    return _modern("modern.tiny", depth=4, width=128, heads=2)


def small() -> Recipe:
    """Autoregressive, 32x32: 8 blocks of width 256, 512 colors."""
    return _modern("modern.small", depth=8, width=256, heads=4)


def _modern(name: str, *, depth: int, width: int, heads: int) -> Recipe:
    block = LocalTransformerSpec(
        heads=heads,
        qk_norm_scale=QK_NORM_SCALE,
        mlp=TwoLayerMLPSpec(activation="relu_squared", bias=False),
    )
    return igpt_tiny().updated(
        name=name,
        model=ModelSpec(
            positions=RotaryPositionEmbeddingSpec(),
            block=block,
            depth=depth,
            width=width,
            init="zero_residual",
        ),
        optimizer=Muon(),
        schedule=LinearEndSchedule(),
    )


PAPERS["modern"] = (tiny, small)
