"""PatchFormer (ICLR 2020 submission): predict the gray levels of masked patches from the visible patches.

Command:  isopix pretrain patchformer.base --data imagenet-1k --out runs/patchformer
          isopix finetune runs/patchformer --data imagenet-1k --out runs/classes --labels 10%
Cost:     300,000 steps of 128 images at 224x224 (the paper: a TPU v3-32); isopix plan patchformer.base
Expected: top-1 accuracy on ImageNet with 1, 10 and 20% of the labels: 30.3, 65.5 and 70.2%

Not in the paper, and our choice: a constant learning rate, ViT's initialization, the augmentation of whole
images in fine-tuning (iGPT's of ImageNet; of CIFAR for `tiny`), and what the docstrings of
`ResNetPatchEmbedSpec`, `UpsamplingHeadSpec` and `RandomPatchAugment` say. AdamW is our choice, too: the paper
names BERT's AdamWeightDecay (`optimizer=adam_weight_decay`). Attention pools into a class token,
u, h' = Transformer(u0, h_1 .. h_n), as in Selfie, whose position embeddings it has too; a masked patch is
decoded from u + X[row] + Y[column], each after a norm: norm(u) + norm'(X[row] + Y[column]).
"""

from isopix.codecs.patches import GrayThumbnailSpec
from isopix.data.dataset import DataConfig
from isopix.data.patch_augment import RandomPatchAugment
from isopix.model.blocks.transformer import TransformerSpec
from isopix.model.heads import UpsamplingHeadSpec
from isopix.model.masking import DropMaskingSpec
from isopix.model.mlp import LayerNormSpec, TwoLayerMLPSpec
from isopix.model.positions import FactorizedPositionEmbeddingSpec
from isopix.model.spec import ModelSpec
from isopix.model.stems.patches import PatchEmbedSpec, ResNetPatchEmbedSpec
from isopix.objectives.masks import BlockMask
from isopix.objectives.objectives import Masked
from isopix.recipes.recipe import PAPERS, Recipe
from isopix.train.config import AdamW, ConstantSchedule, TrainConfig, WarmupCosineSchedule

# L_CLF alone, a tenth of the patches dropped, and one of the four learning rates that the paper tries
# (section 2.2). It uses dropout and gives no rate: 0.1 is our choice.
FINETUNE = (
    *("generative_weight=0.0", "mask_ratio=0.1", "mask_at_eval=false", "residual_block=true", "dropout=0.1"),
    *("finetune.label_smoothing=0.01", "optimizer.lr=2e-4"),
)


def base() -> Recipe:
    """PatchFormer, 224x224: a ResNet-41 for each visible 16x16 patch and 10 blocks of width 1024; predicts
    8x8 gray levels of 2 bits for 116 of 196 patches.
    """
    return Recipe(
        name="patchformer.base",
        model=ModelSpec(
            codec=GrayThumbnailSpec(),
            stem=ResNetPatchEmbedSpec(),
            positions=FactorizedPositionEmbeddingSpec(),
            class_token=True,
            block=TransformerSpec(heads=16, attention_bias=True, norm=LayerNormSpec(), mlp=TwoLayerMLPSpec()),
            depth=10,
            width=1024,
            init="vit",
            head=UpsamplingHeadSpec(),
        ),
        data=DataConfig(source="imagenet-1k", rows=224, cols=224, patch_augment=RandomPatchAugment()),
        objective=Masked(mask=BlockMask(), corruption=DropMaskingSpec(), label_smoothing=0.01),
        train=TrainConfig(
            steps=300_000,
            batch_size=128,
            optimizer=AdamW(),
            schedule=ConstantSchedule(),
            checkpoint_every=5000,
        ),
        finetune_overrides=(*FINETUNE, "data.augment=scale_crop"),
    )


def tiny() -> Recipe:
    """PatchFormer, 96x96 with 16x16 patches, for two CPU cores: 4 blocks of width 128.

    Linear patch embedding and no group norm, which would discard the brightness of a uniform patch in short
    runs; no augmentation of patches, so that training and evaluation have the same inputs.
    """
    return base().updated(
        name="patchformer.tiny",
        finetune_overrides=(*FINETUNE, "data.augment=pad_crop_flip"),
        data=DataConfig(source="stl10", rows=96, cols=96),
        stem=PatchEmbedSpec(),
        block=TransformerSpec(heads=4, attention_bias=True, norm=LayerNormSpec(), mlp=TwoLayerMLPSpec()),
        depth=4,
        width=128,
        head=UpsamplingHeadSpec(channels=64, norm=False),
        steps=8000,
        batch_size=16,
        optimizer=AdamW(lr=2e-3, beta2=0.95),
        schedule=WarmupCosineSchedule(),
        precision="fp32",
        evaluate_every=500,
        evaluate_images=256,
        num_test_images=1000,
        checkpoint_every=500,
    )


PAPERS["patchformer"] = (tiny, base)
