"""PatchFormer over visible and over all patches: the same weights, targets and masks, or an error."""

import sys

import pytest
import torch

from isopix.benchmarks import networks, visible_patches
from isopix.benchmarks.benchmark import OWN
from isopix.benchmarks.numerics import NumericsError
from isopix.objectives.base import PretrainModel
from tests.unit.benchmarks.tiny import CPU, measured

NAME = "patchformer.visible-patches"


def test_both_sides_are_measured() -> None:
    found = measured(NAME)
    assert list(found.times) == [OWN, visible_patches.ALL_PATCHES]
    assert list(found.values) == [
        f"peak memory, {side}, {name}" for side in found.times for name in found.times[side]
    ]
    if sys.platform == "linux":
        assert all(taken >= 0 for taken in found.values.values())


def test_the_networks_differ_in_what_the_blocks_see() -> None:
    recipe = networks.find_recipe("patchformer.tiny")
    assert recipe.objective.corruption.drops_tokens
    assert not visible_patches.over_all_patches(recipe).objective.corruption.drops_tokens


def test_other_weights_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def halve(visible: PretrainModel, every: PretrainModel) -> None:
        with torch.no_grad():
            next(every.network.backbone.blocks.parameters()).mul_(0.5)

    monkeypatch.setattr(visible_patches, "share_weights", halve)
    with pytest.raises(NumericsError, match="different weights"):
        measured(NAME)


def test_other_targets_are_an_error() -> None:
    recipe = networks.find_recipe("patchformer.tiny", ("depth=1", "width=16"))
    other = networks.find_recipe("patchformer.tiny", ("depth=1", "width=16", "mask.kind=bernoulli"))
    models = [visible_patches.untrained_model(each, CPU) for each in (recipe, other)]
    visible_patches.share_weights(*models)
    with pytest.raises(NumericsError, match="predict different codes"):
        visible_patches.require_same_task(*models, networks.random_images(recipe, 2, CPU))


def test_another_first_loss_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(visible_patches.math, "log", lambda number: 1.4)
    with pytest.raises(NumericsError, match=r"loss 1.38629 instead of 1.4"):
        measured(NAME)
