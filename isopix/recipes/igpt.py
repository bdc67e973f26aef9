"""Image GPT (Chen et al. 2020): the models of section 3.3 and the learning rates of table 5.

Command:  isopix pretrain igpt.s --data imagenet-1k --out runs/igpt-s
Cost:     1 M steps of 128 images at 32x32 (XL: 2 M of 64 at 64x64), about 100 epochs of ImageNet;
          FLOPs, memory and time on a device: isopix plan igpt.s
Expected: linear-probe accuracy on ImageNet (table 2): L 60.3 % at 32x32, XL 68.7 % at 64x64 (5 layers
          concatenated: 72.0 %)

Differences: the number of heads of S, M and L is the released code's; XL's was never published, and ours is
24 (128 channels each). The paper's XL also trained on 100 million web images without augmentation; ours
trains on ImageNet alone. The paper chose float32 over float16 for small gains in representation quality
(appendix A.1); ours computes matrix products in bf16 on devices with instructions for it, with weights,
optimizer state, logits and losses in float32 (docs/igpt.md has the cost; `precision=fp32` is the paper's
choice). `*_bert` are the same networks with the masked objective, without the start token.
"""

from dataclasses import replace

from isopix.data.augment import ScaleCrop
from isopix.data.dataset import DataConfig
from isopix.model.blocks.transformer import TransformerSpec
from isopix.model.spec import ModelSpec
from isopix.objectives.objectives import Masked
from isopix.recipes.recipe import Recipe
from isopix.train.config import TrainConfig
from isopix.train.optim import Adam


def s() -> Recipe:
    """iGPT-S, 32x32: 24 blocks of width 512; 76,571,648 parameters."""
    return _igpt("igpt.s", depth=24, width=512, heads=8, lr=0.003)


def m() -> Recipe:
    """iGPT-M, 32x32: 36 blocks of width 1024; 455,157,760 parameters."""
    return _igpt("igpt.m", depth=36, width=1024, heads=8, lr=0.003)


def l() -> Recipe:  # noqa: E743  the paper's name of the size
    """iGPT-L, 32x32: 48 blocks of width 1536; 1,362,250,752 parameters. The paper uses lr 0.01 at
    48x48 (table 5).
    """
    return _igpt("igpt.l", depth=48, width=1536, heads=16, lr=0.001)


def xl() -> Recipe:
    """iGPT-XL, 64x64: 60 blocks of width 3072; 6,810,875,904 parameters (the 6,801 M of table 2 count
    32x32 positions).
    """
    recipe = _igpt("igpt.xl", depth=60, width=3072, heads=24, lr=0.0003)
    return recipe.updated(data=replace(recipe.data, rows=64, cols=64), steps=2_000_000, batch_size=64)


def s_bert() -> Recipe:
    """iGPT-S with the masked objective: 76,571,136 parameters."""
    return _bert(s(), lr=0.01)


def m_bert() -> Recipe:
    """iGPT-M with the masked objective: 455,156,736 parameters."""
    return _bert(m(), lr=0.003)


def l_bert() -> Recipe:
    """iGPT-L with the masked objective: 1,362,249,216 parameters."""
    return _bert(l(), lr=0.001)


def _igpt(name: str, *, depth: int, width: int, heads: int, lr: float) -> Recipe:
    return Recipe(
        name=name,
        model=ModelSpec(depth=depth, width=width, block=TransformerSpec(heads=heads)),
        data=DataConfig(source="imagenet-1k", augment=ScaleCrop()),
        train=TrainConfig(optimizer=Adam(lr=lr)),
    )


def _bert(recipe: Recipe, *, lr: float) -> Recipe:
    return recipe.updated(name=f"{recipe.name}_bert", objective=Masked(), optimizer=Adam(lr=lr))
