"""The names of parts in reports and model cards: each has its own, which follows its settings."""

import pytest

import isopix.parts  # noqa: F401  registers all parts
from isopix.core.registry import Part, kinds, nouns
from isopix.model.blocks.mixer import MixerSpec
from isopix.model.blocks.transformer import TransformerSpec
from isopix.model.mlp import TwoLayerMLPSpec
from isopix.objectives.masks import BernoulliMask, BlockMask
from isopix.objectives.objectives import Masked
from isopix.train.optim import AdamW

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


@pytest.mark.parametrize("noun", nouns())
def test_every_part_of_the_package_has_a_label_of_its_own(noun: str) -> None:
    labels = [cls().label() for cls in kinds(noun).values() if cls.__module__.startswith("isopix.")]
    assert all(labels)
    assert len(set(labels)) == len(labels)


@pytest.mark.parametrize(("part", "label"), SETTINGS)
def test_a_label_follows_the_settings(part: Part, label: str) -> None:
    assert part.label() == label
