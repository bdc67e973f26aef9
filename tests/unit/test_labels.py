<<<<<<< HEAD
"""The names of parts in reports and model cards: each has its own, which follows its settings."""
=======
"""Parts describe themselves in reports and model cards; labels follow the settings."""
>>>>>>> main

import pytest

import isopix.parts  # noqa: F401  registers all parts
from isopix.codecs.patches import GrayThumbnailSpec, MeanColorSpec
from isopix.core.registry import Part, kinds, nouns
from isopix.data.augment import ScaleCrop
from isopix.model.blocks.mixer import MixerSpec
from isopix.model.blocks.transformer import TransformerSpec
from isopix.model.mlp import TwoLayerMLPSpec
from isopix.model.stems.patches import ResNetPatchEmbedSpec
from isopix.objectives.masks import BernoulliMask, BlockMask
from isopix.objectives.objectives import Masked
from isopix.train.optim import AdamW, WarmupCosineSchedule

SETTINGS: list[tuple[Part, str]] = [
    (MeanColorSpec(patch_size=8), "mean color of each 8 × 8 patch, 3 bits per channel"),
    (GrayThumbnailSpec(), "8 × 8 gray levels of each 16 × 16 patch, 2 bits"),
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
    (ResNetPatchEmbedSpec(stages=(1, 1)), "ResNet patch embedding, stages 1-1, 64 channels"),
    (ScaleCrop(flip=0.5), "scale to 256–384, random crop of 224, flip with probability 0.5"),
    (AdamW(lr=0.01, weight_decay=0.0), "AdamW, lr 0.01, betas (0.9, 0.999), weight decay 0"),
    (WarmupCosineSchedule(), "1-epoch warmup (at most 10 % of steps), cosine decay to 0"),
]


<<<<<<< HEAD
@pytest.mark.parametrize("noun", nouns())
def test_every_part_of_the_package_has_a_label_of_its_own(noun: str) -> None:
    labels = [cls().label() for cls in kinds(noun).values() if cls.__module__.startswith("isopix.")]
    assert all(labels)
    assert len(set(labels)) == len(labels)
=======
def test_the_parts_of_a_noun_have_labels_of_their_own() -> None:
    for noun in nouns():
        own = [cls for cls in kinds(noun).values() if cls.__module__.startswith("isopix.")]
        labels = [cls().label() for cls in own]
        assert all(labels)
        assert len(set(labels)) == len(own), noun
>>>>>>> main


@pytest.mark.parametrize(("part", "label"), SETTINGS)
def test_a_label_follows_the_settings(part: Part, label: str) -> None:
    assert part.label() == label
