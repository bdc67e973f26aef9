"""Vision Transformers pre-trained by masked patch prediction (Dosovitskiy et al. 2021, appendix B.1.2).

Command:  isopix pretrain vit.b16 --data imagenet-1k --out runs/vit-b16
Cost:     1 M steps of 4096 images at 224x224 (the paper: 14 epochs of JFT); isopix plan vit.b16
Expected: B/16 fine-tuned on ImageNet: 79.9% top-1 accuracy, 2 points above from scratch (section 4.6)

Half of the patches are corrupted, 80% of them to a mask token, 10% to another patch of the image and 10%
not at all; the target is the mean color of each, 3 bits per channel. The paper trains B/16 with Adam at 2e-4,
10,000 steps of warmup, on JFT with random flips and Inception crops; ours are Image GPT's crops. L/16 and
H/14 are its sizes with the same objective; `tiny` and its variants are for two CPU cores. Alternatives of the
paper are settings: `codec=downsampled_color`, `codec=full_patch` with `head=regression`,
`class_token=false`, `stem=resnet`, `block=axial`.
"""

from isopix.codecs.patches import MeanColorSpec
from isopix.data.augment import ScaleCrop
from isopix.data.dataset import DataConfig
from isopix.model.blocks.axial import AxialSpec
from isopix.model.blocks.transformer import TransformerSpec
from isopix.model.masking import MaskTokenMaskingSpec
from isopix.model.mlp import LayerNormSpec, TwoLayerMLPSpec
from isopix.model.spec import ModelSpec
from isopix.model.stems.patches import PatchEmbedSpec, ResNetPatchEmbedSpec
from isopix.objectives.masks import BernoulliMask
from isopix.objectives.objectives import Masked
from isopix.recipes.recipe import PAPERS, Recipe
from isopix.train.config import Adam, TrainConfig, WarmupCosineSchedule

NORM = LayerNormSpec(epsilon=1e-6)  # as in the released code
WARMUP = WarmupCosineSchedule(warmup_epochs=1000.0, max_warmup_fraction=0.01)  # 1% of the steps

# L_CLF alone, on whole images (section 3.2), with the augmentation of pre-training.
FINETUNE = ("generative_weight=0.0", "mask_ratio=0.0", "mask_at_eval=false")
# As the paper fine-tunes (appendix B.1.1); it tries four learning rates for each dataset, 0.01 among them.
PAPER_FINETUNE = (
    *("optimizer=sgd", "optimizer.momentum=0.9", "optimizer.lr=0.01", "max_grad_norm=1.0"),
    *("schedule=warmup_cosine", "schedule.warmup_epochs=0.0"),
    *("finetune.head_bias=true", "finetune.patience=null"),
)


def b16() -> Recipe:
    """ViT-B/16, 224x224: 12 blocks of width 768 over 14x14 patches; 86 million parameters."""
    return _vit("vit.b16", patch=16, depth=12, width=768, heads=12)


def l16() -> Recipe:
    """ViT-L/16, 224x224: 24 blocks of width 1024 over 14x14 patches; 304 million parameters."""
    return _vit("vit.l16", patch=16, depth=24, width=1024, heads=16)


def h14() -> Recipe:
    """ViT-H/14, 224x224: 32 blocks of width 1280 over 16x16 patches; 631 million parameters."""
    return _vit("vit.h14", patch=14, depth=32, width=1280, heads=16)


def tiny() -> Recipe:
    """ViT, 64x64 with 8x8 patches, for two CPU cores: 4 blocks of width 128 and a class token."""
    recipe = _vit("vit.tiny", patch=8, depth=4, width=128, heads=4)
    return recipe.updated(
        finetune_overrides=(*FINETUNE, "data.augment=pad_crop_flip"),
        data=DataConfig(source="stl10", rows=64, cols=64),
        steps=1000,
        batch_size=32,
        optimizer=Adam(lr=1e-3, beta2=0.999),
        schedule=WarmupCosineSchedule(),
        precision="fp32",
        evaluate_every=100,
        evaluate_images=256,
        num_test_images=1000,
        checkpoint_every=100,
    )


def tiny_axial() -> Recipe:
    """vit.tiny with attention along rows, then columns, and without a class token."""
    block = AxialSpec(heads=4, norm=NORM)
    return tiny().updated(name="vit.tiny_axial", block=block, class_token=False)


def tiny_hybrid() -> Recipe:
    """vit.tiny with a small ResNet for each patch instead of a linear patch embedding."""
    return tiny().updated(name="vit.tiny_hybrid", stem=ResNetPatchEmbedSpec(stages=(1, 1), channels=16))


def _vit(name: str, *, patch: int, depth: int, width: int, heads: int) -> Recipe:
    return Recipe(
        name=name,
        model=ModelSpec(
            codec=MeanColorSpec(patch_size=patch),
            stem=PatchEmbedSpec(),
            class_token=True,
            block=TransformerSpec(heads=heads, attention_bias=True, norm=NORM, mlp=TwoLayerMLPSpec()),
            depth=depth,
            width=width,
            init="vit",
        ),
        data=DataConfig(source="imagenet-1k", rows=224, cols=224, augment=ScaleCrop(flip=0.5)),
        objective=Masked(
            mask=BernoulliMask(ratio=0.5), corruption=MaskTokenMaskingSpec(), random_rate=0.1, keep_rate=0.1
        ),
        train=TrainConfig(
            steps=1_000_000,
            batch_size=4096,
            optimizer=Adam(lr=2e-4, beta2=0.999),
            schedule=WARMUP,
            checkpoint_every=5000,
        ),
        finetune_overrides=(*FINETUNE, *PAPER_FINETUNE),
    )


PAPERS["vit"] = (tiny, tiny_axial, tiny_hybrid, b16, l16, h14)
