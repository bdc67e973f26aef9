"""PatchFormer (ICLR 2020 submission): name the greys of hidden patches from the patches that are left.

    isopix pretrain patchformer.base --data imagenet-1k --out runs/patchformer

The paper trains 300,000 steps of 128 images, and names no schedule: ours is constant. What else it does not
say, and we chose, stands at `ResNetPatchEmbedSpec`, `UpsamplingHeadSpec` and `PatchNoise`; the start is
ViT's. Attention pools into a class token, u, h' = Transformer(u0, h_1 .. h_n), as in Selfie, whose positions it also has; a hidden patch
is decoded from u + X[row] + Y[column], each behind a norm: norm(u) + norm'(X[row] + Y[column]).
"""

from isopix.codecs import GreyThumbnail
from isopix.data.dataset import Data
from isopix.data.patch_augment import PatchNoise
from isopix.model.blocks import TransformerSpec
from isopix.model.heads import UpsamplingHeadSpec
from isopix.model.masking import DropMaskingSpec
from isopix.model.mlp import TwoLayerMLPSpec
from isopix.model.norms import LayerNormSpec
from isopix.model.positions import FactorizedPositionEmbeddingSpec
from isopix.model.spec import ModelSpec
from isopix.model.stems import ResNetPatchEmbedSpec
from isopix.objectives.masked import Masked
from isopix.objectives.masks import BlockMask
from isopix.recipes.recipe import Recipe
from isopix.train.config import TrainConfig
from isopix.train.optim import AdamW
from isopix.train.schedule import Constant


def base() -> Recipe:
    """PatchFormer, 224x224: a ResNet-41 of each visible 16x16 patch, 10 blocks of width 1024, and 8x8 greys
    of 2 bits for the 116 of 196 that are hidden.
    """
    return Recipe(
        name="patchformer.base",
        model=ModelSpec(
            codec=GreyThumbnail(),
            stem=ResNetPatchEmbedSpec(),
            positions=FactorizedPositionEmbeddingSpec(),
            class_token=True,
            block=TransformerSpec(heads=16, attention_bias=True, norm=LayerNormSpec(), mlp=TwoLayerMLPSpec()),
            depth=10,
            width=1024,
            init="vit",
            head=UpsamplingHeadSpec(),
        ),
        data=Data(source="imagenet-1k", rows=224, cols=224, patch_augment=PatchNoise()),
        objective=Masked(mask=BlockMask(), corruption=DropMaskingSpec(), label_smoothing=0.01),
        train=TrainConfig(
            steps=300_000,
            batch_size=128,
            optimizer=AdamW(),
            schedule=Constant(),
            checkpoint_every=5000,
        ),
    )


def tiny() -> Recipe:
    """PatchFormer, 64x64 in patches of 8x8, for two CPU cores: 4 blocks of width 128, and a small ResNet."""
    return base().updated(
        name="patchformer.tiny",
        data=Data(source="stl10", rows=64, cols=64, patch_augment=PatchNoise()),
        codec=GreyThumbnail(patch=8),
        stem=ResNetPatchEmbedSpec(stages=(1, 1), channels=16),
        block=TransformerSpec(heads=4, attention_bias=True, norm=LayerNormSpec(), mlp=TwoLayerMLPSpec()),
        depth=4,
        width=128,
        head=UpsamplingHeadSpec(channels=64),
        steps=600,
        batch_size=32,
        optimizer=AdamW(lr=1e-3),
        precision="fp32",
        evaluate_every=100,
        evaluate_images=256,
        num_test_images=1000,
        checkpoint_every=100,
    )
