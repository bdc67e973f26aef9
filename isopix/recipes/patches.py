"""Masked, next-patch and denoising regression: methods to compare pixel prediction with, at CIFAR's size.

Command:  isopix pretrain patches.mae --data cifar10 --out runs/mae   (or simmim, aim, denoising)

A Vision Transformer of 4 blocks of width 128 on 8 x 8 patches of 4 x 4 pixels. Masks, targets, betas and
weight decay are the papers' (those of denoising MAE's); sizes, steps and learning rate are ours, as are fixed
position embeddings in SimMIM and no class token in MAE.
"""

from isopix.codecs.patches import FullPatchSpec
from isopix.data.dataset import DataConfig
from isopix.model.blocks.transformer import TransformerSpec
from isopix.model.decoder import DecoderMaskingSpec, PrefixMaskingSpec
from isopix.model.heads import RegressionHeadSpec
from isopix.model.masking import MaskTokenMaskingSpec
from isopix.model.mlp import LayerNormSpec, TwoLayerMLPSpec
from isopix.model.positions import SinCosPositionEmbeddingSpec
from isopix.model.spec import ModelSpec
from isopix.model.stems.patches import PatchEmbedSpec
from isopix.objectives.base import ObjectiveSpec
from isopix.objectives.denoising import Denoising
from isopix.objectives.masks import BlockMask
from isopix.objectives.objectives import Masked
from isopix.objectives.prefix import Prefix
from isopix.recipes.recipe import PAPERS, Recipe
from isopix.train.config import AdamW, TrainConfig, WarmupCosineSchedule

NORMALIZED = RegressionHeadSpec(normalize=True)


def mae() -> Recipe:
    """Masked autoencoder (He et al. 2022): 75% of the patches dropped, 2 decoder blocks of width 64, squared
    error of normalized patches.
    """
    decoder = DecoderMaskingSpec(decoder_depth=2, decoder_width=64, decoder_heads=4)
    return _patches("mae", Masked(mask=BlockMask(ratio=0.75, side=1), corruption=decoder), NORMALIZED)


def simmim() -> Recipe:
    """SimMIM (Xie et al. 2022): 60% of squares of 2 x 2 patches replaced by a mask token, absolute error."""
    objective = Masked(mask=BlockMask(ratio=0.6), corruption=MaskTokenMaskingSpec())
    return _patches("simmim", objective, RegressionHeadSpec(error="absolute"), beta2=0.999)


def aim() -> Recipe:
    """AIM (El-Nouby et al. 2024): the next patch after a random prefix, by two MLPs of width 128 behind the
    blocks; squared error of normalized patches; matrices of blocks without biases.
    """
    head = PrefixMaskingSpec(head_depth=2, head_width=128)
    return _patches("aim", Prefix(corruption=head), NORMALIZED, bias=False)


def denoising() -> Recipe:
    """Denoising (Vincent et al. 2010): all patches from those with Gaussian noise, squared error."""
    return _patches("denoising", Denoising(), RegressionHeadSpec())


def _patches(
    name: str, objective: ObjectiveSpec, head: RegressionHeadSpec, *, beta2: float = 0.95, bias: bool = True
) -> Recipe:
    norm, mlp = LayerNormSpec(epsilon=1e-6), TwoLayerMLPSpec(bias=bias)
    return Recipe(
        name=f"patches.{name}",
        model=ModelSpec(
            codec=FullPatchSpec(patch_size=4),
            stem=PatchEmbedSpec(),
            positions=SinCosPositionEmbeddingSpec(),
            block=TransformerSpec(heads=4, attention_bias=bias, norm=norm, mlp=mlp),
            depth=4,
            width=128,
            init="vit",
            head=head,
        ),
        data=DataConfig(source="cifar10", rows=32, cols=32),
        objective=objective,
        train=TrainConfig(
            steps=6000,
            batch_size=64,
            optimizer=AdamW(lr=1e-3, beta2=beta2, weight_decay=0.05),
            schedule=WarmupCosineSchedule(),
            evaluate_every=500,
            evaluate_images=1000,
            checkpoint_every=500,
        ),
    )


PAPERS["patches"] = (mae, simmim, aim, denoising)
