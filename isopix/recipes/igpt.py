"""Image GPT: the sizes and rates of Chen et al. 2020 (section 3.3, table 5).

    isopix pretrain igpt.s --data imagenet-1k --out runs/igpt-s

The paper's schedule is 1 M steps of 128 images (XL: 2 M of 64), about 100 epochs of ImageNet. Heads of S, M
and L are the released code's; XL's were never published, and 24 (128 channels each) is our choice. The
paper's XL also saw 100 million web images that were never published, without augmentation; ours sees ImageNet
alone. `*_bert` are the same networks under the masked objective, without the start vector.
"""

from dataclasses import replace

from isopix.data.augment import ScaleCrop
from isopix.data.dataset import DataConfig
from isopix.model.blocks import TransformerSpec
from isopix.model.spec import ModelSpec
from isopix.objectives.masked import Masked
from isopix.recipes.recipe import Recipe
from isopix.train.config import TrainConfig
from isopix.train.optim import Adam


def s() -> Recipe:
    """iGPT-S, 32x32: 24 blocks of width 512; 76,571,648 parameters."""
    return _igpt("igpt.s", depth=24, width=512, heads=8, learning_rate=0.003)


def m() -> Recipe:
    """iGPT-M, 32x32: 36 blocks of width 1024; 455,157,760 parameters."""
    return _igpt("igpt.m", depth=36, width=1024, heads=8, learning_rate=0.003)


def l() -> Recipe:  # noqa: E743  the paper's name of the size
    """iGPT-L, 32x32: 48 blocks of width 1536; 1,362,250,752 parameters. At 48x48 table 5 prints a rate of
    0.01.
    """
    return _igpt("igpt.l", depth=48, width=1536, heads=16, learning_rate=0.001)


def xl() -> Recipe:
    """iGPT-XL, 64x64: 60 blocks of width 3072; 6,810,875,904 parameters (the printed 6,801 M counts 32x32
    positions).
    """
    recipe = _igpt("igpt.xl", depth=60, width=3072, heads=24, learning_rate=0.0003)
    return recipe.updated(
        data=replace(recipe.data, rows=64, cols=64),
        steps=2_000_000,
        batch_size=64,
    )


def s_bert() -> Recipe:
    """iGPT-S under the masked objective: 76,571,136 parameters."""
    return _bert(s(), learning_rate=0.01)


def m_bert() -> Recipe:
    """iGPT-M under the masked objective: 455,156,736 parameters."""
    return _bert(m(), learning_rate=0.003)


def l_bert() -> Recipe:
    """iGPT-L under the masked objective: 1,362,249,216 parameters."""
    return _bert(l(), learning_rate=0.001)


def _igpt(name: str, *, depth: int, width: int, heads: int, learning_rate: float) -> Recipe:
    return Recipe(
        name=name,
        model=ModelSpec(
            depth=depth,
            width=width,
            block=TransformerSpec(heads=heads),
        ),
        data=DataConfig(source="imagenet-1k", augment=ScaleCrop()),
        train=TrainConfig(
            optimizer=Adam(lr=learning_rate),
        ),
    )


def _bert(recipe: Recipe, *, learning_rate: float) -> Recipe:
    return recipe.updated(
        name=f"{recipe.name}_bert",
        objective=Masked(),
        optimizer=Adam(lr=learning_rate),
    )
