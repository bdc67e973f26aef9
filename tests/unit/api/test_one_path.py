"""A function and the method of its name compute the same, and leave a model as it was."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import isopix
from isopix.core.types import Images
from isopix.data.dataset import DataConfig, load_dataset
from isopix.pretrained.model import PretrainedModel
from tests.unit.data.refusal import refusal


@pytest.fixture
def images() -> Images:
    return load_dataset(DataConfig(source="digits", rows=8, cols=8, limit=6)).train.images


def loaded(pristine: Path, name: str, **options: Any) -> PretrainedModel:
    return isopix.load(pristine / name, device="cpu", **options)


def test_the_precision_of_a_model_is_that_of_the_functions(
    pristine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = loaded(pristine, "ar", precision="bf16")
    probed: list[bool] = []
    real_features = model.network.features

    def spy(*given: Any, **options: Any) -> Any:
        probed.append(torch.is_autocast_enabled("cpu"))
        return real_features(*given, **options)

    monkeypatch.setattr(model.network, "features", spy)
    isopix.probe(model, limit=40, method="ridge")
    assert probed
    assert all(probed)


CALLS: dict[str, tuple[str, Callable[[PretrainedModel, Images], object]]] = {
    "probe": ("ar", lambda model, images: isopix.probe(model, limit=40, method="ridge")),
    "analyze": ("ar", lambda model, images: isopix.analyze(model, limit=2, only=["attention_distance"])),
    "sample": ("ar", lambda model, images: isopix.sample(model, 2)),
    "complete": ("ar", isopix.complete),
    "reconstruct": ("bert", isopix.reconstruct),
    "features": ("ar", lambda model, images: model.features(images)),
    "logits": ("ar", lambda model, images: model.logits(images)),
    "nll": ("ar", lambda model, images: model.nll(images)),
    "one that fails": ("ar", lambda model, images: refusal(isopix.reconstruct, model, images)),
}


@pytest.mark.parametrize(("name", "call"), CALLS.values(), ids=list(CALLS))
def test_a_model_is_in_evaluation_mode_while_it_is_used_and_in_its_own_afterwards(
    pristine: Path, images: Images, name: str, call: Callable[[PretrainedModel, Images], object]
) -> None:
    model = loaded(pristine, name).train()
    model.network.backbone.stem.eval()
    expected = {key: module.training for key, module in model.named_modules()}
    seen: list[bool] = []
    for each in model.network.backbone.blocks:
        each.register_forward_pre_hook(lambda block, given: seen.append(block.training))
    call(model, images)
    assert not any(seen)
    assert {key: module.training for key, module in model.named_modules()} == expected
    assert expected[""]
    assert not expected["network.backbone.stem"]


def test_features_of_a_model_are_its_own(pristine: Path, images: Images) -> None:
    own: dict[str, Any] = {"layer": 0, "pool": "max", "features": "residual"}
    model = loaded(pristine, "ar", **own)
    expected = model(images).detach()
    assert torch.equal(model.features(images), expected)
    assert np.array_equal(isopix.Features(model).fit_transform(images.numpy()), expected.numpy())
    by_path = isopix.Features(pristine / "ar", device="cpu", **own).fit_transform(images.numpy())
    assert np.array_equal(by_path, expected.numpy())
    assert not np.allclose(isopix.Features(model, pool="mean").fit_transform(images.numpy()), by_path)


def test_no_images_have_no_features(pristine: Path, images: Images) -> None:
    model = loaded(pristine, "ar")
    assert model(images[:0]).shape == (0, model.num_features)
    assert loaded(pristine, "bert", layer=0)(images[:0].numpy()).shape == (0, model.num_features)
