"""The names of the package's own parts in reports and model cards, as literals: a report repeats them."""

import pytest

import isopix.parts  # noqa: F401  registers all parts
from isopix.core.registry import Part, kinds, nouns
from isopix.model.blocks.mixer import MixerSpec
from isopix.model.blocks.transformer import TransformerSpec
from isopix.model.mlp import TwoLayerMLPSpec
from isopix.objectives.masks import BernoulliMask, BlockMask
from isopix.objectives.objectives import Masked
from isopix.train.optim import AdamW

LABELS = {
    "codec bytes": "RGB bytes",
    "codec palette": "512-color palette",
    "codec mean_color": "mean color of each 16 × 16 patch, 3 bits per channel",
    "codec downsampled_color": "4 × 4 colors of each 16 × 16 patch, 3 bits per channel",
    "codec gray_thumbnail": "8 × 8 gray levels of each 16 × 16 patch, 2 bits",
    "codec full_patch": "RGB bytes of each 16 × 16 patch",
    "norm rms_norm": "RMSNorm",
    "norm layer_norm": "LayerNorm",
    "block transformer": "transformer, 8 heads, RMSNorm, MLP 4x, QuickGELU",
    "block axial": "axial attention, 8 heads, LayerNorm, MLP 4x, GELU",
    "block convolution": "two 3 × 3 convolutions, LayerNorm, GELU",
    "block mixer": "MLP-Mixer, token MLP 1x, channel MLP 1x, GELU, LayerNorm",
    "mlp mlp": "MLP 4x, GELU",
    "stem patch_embed": "linear patch embedding",
    "stem conv_patch_embed": "convolutional patch embedding, 32 channels",
    "stem resnet": "ResNet patch embedding, stages 3-4-6, 64 channels",
    "stem fourier_pixel_embedding": "64 random Fourier features per channel, sigma 1",
    "stem linear_pixel_embedding": "linear embedding of the three channels",
    "stem token_embedding": "token embedding",
    "corruption shift_right": "inputs shifted right, start token",
    "corruption zero": "zero vector",
    "corruption mask_token": "learned mask token",
    "corruption drop": "tokens dropped",
    "positions learned": "learned position embeddings",
    "positions factorized": "learned row and column embeddings",
    "positions sincos": "fixed sine and cosine position embeddings",
    "positions none": "no position embeddings",
    "head linear": "linear",
    "head none": "none",
    "head upsampling": "upsampling residual decoder, 256 channels",
    "head regression": "linear regression, squared error",
    "analysis attention_distance": "Attention distance",
    "analysis attention_maps": "Attention maps",
    "analysis attention_rollout": "Attention rollout",
    "analysis position_embeddings": "Position-embedding similarity",
    "analysis embedding_pca": "Embedding PCA",
    "analysis inductive_biases": "Inductive biases",
    "augmentation none": "none",
    "augmentation pad_crop_flip": "pad 4, random crop, flip with probability 0.5",
    "augmentation scale_crop": "scale to 256–384, random crop of 224, flip with probability 0",
    "patch_augment none": "none",
    "patch_augment random": "per-patch random crop, color jitter, flip, posterize, grayscale",
    "objective autoregressive": "autoregressive",
    "objective masked": "masked",
    "objective none": "unknown",
    "mask bernoulli": "15 % of positions, independent",
    "mask per_channel": "15 % of codes, independent",
    "mask block": "60 % of positions in every image, in 2 × 2 blocks",
    "probe adam": "logistic regression (Adam)",
    "probe knn": "k-nearest neighbors",
    "probe sgd": "logistic regression (SGD)",
    "probe lbfgs": "logistic regression (L-BFGS)",
    "probe ridge": "ridge regression",
    "evaluator held_out_loss": "evaluation",
    "evaluator knn": "knn",
    "evaluator linear_probe": "linear probe",
    "optimizer adam": "Adam, lr 0.003, betas (0.9, 0.95)",
    "optimizer adamw": "AdamW, lr 0.0002, betas (0.9, 0.999), weight decay 0.001",
    "optimizer sgd": "SGD, lr 0.03, momentum 0.9",
    "schedule warmup_cosine": "1-epoch warmup (at most 10 % of steps), cosine decay to 0",
    "schedule constant": "constant",
}
SETTINGS: list[tuple[Part, str]] = [
    (Masked(causal=True), "masked, causal"),
    (BernoulliMask(ratio=0.125), "12.5 % of positions, independent"),
    (BlockMask(exact_count=118), "118 positions in every image"),
    (BlockMask(ratio=0.5, side=1), "50 % of positions in every image"),
    (BlockMask(ratio=0.5, side=4), "50 % of positions in every image, in 4 × 4 blocks"),
    (
        TransformerSpec(heads=3, mlp=TwoLayerMLPSpec(expansion=2)),
        "transformer, 3 heads, RMSNorm, MLP 2x, GELU",
    ),
    (MixerSpec(), "MLP-Mixer, token MLP 1x, channel MLP 1x, GELU, LayerNorm"),
    (AdamW(lr=0.01, weight_decay=0.0), "AdamW, lr 0.01, betas (0.9, 0.999), weight decay 0"),
]


def test_every_part_of_the_package_has_a_label_here() -> None:
    own = [f"{noun} {kind}" for noun in nouns() for kind, cls in kinds(noun).items() if is_own(cls)]
    assert set(own) == LABELS.keys()


def is_own(cls: type[Part]) -> bool:
    return cls.__module__.startswith("isopix.")


@pytest.mark.parametrize("part", LABELS)
def test_a_part_is_called_by_its_label(part: str) -> None:
    noun, kind = part.split()
    assert kinds(noun)[kind]().label() == LABELS[part]


@pytest.mark.parametrize(("part", "label"), SETTINGS)
def test_a_label_follows_the_settings(part: Part, label: str) -> None:
    assert part.label() == label
