"""PretrainedModel goes where a module goes: it is called, trained, frozen, moved, copied and restored."""

import copy
import pickle
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional

import isopix
from isopix.pretrained.model import PretrainedModel
from tests.laws import cases
from tests.unit.api.test_pretrained import CAUSAL, images, model
from tests.unit.data.refusal import refusal


@pytest.fixture
def causal() -> PretrainedModel:
    return model(CAUSAL)


@pytest.mark.parametrize("layer", [0, 1, -1])
@pytest.mark.parametrize("pool", ["mean", "last", "max", "first"])
def test_called_it_returns_features(causal: PretrainedModel, layer: int, pool: str) -> None:
    x = images(causal)
    called = PretrainedModel(causal.loaded, layer=layer, pool=pool)
    found = called(x)
    assert found.shape == (3, called.num_features)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.detach(), causal.features(x, layer, pool=pool))
    assert torch.equal(called.features(x, pool=pool), causal.features(x, layer, pool=pool))
    tokens = called.forward_features(x)
    assert tokens.shape == (3, 28 + called.num_prefix_tokens, called.num_features)
    assert torch.equal(called.forward_head(tokens), found)


def test_called_it_can_return_the_residual_stream(causal: PretrainedModel) -> None:
    x = images(causal)
    residual = PretrainedModel(causal.loaded, layer=1, features="residual")
    torch.testing.assert_close(residual(x).detach(), causal.features(x, 1, features="residual"))
    assert not torch.allclose(residual(x), PretrainedModel(causal.loaded, layer=1)(x))


def test_it_is_a_part_of_other_modules_with_gradients_until_it_is_frozen(causal: PretrainedModel) -> None:
    x, labels = images(causal), torch.tensor([0, 1, 2])
    classifier = nn.Sequential(causal, nn.Linear(causal.num_features, 10))
    assert not causal.training
    functional.cross_entropy(classifier(x), labels).backward()
    assert causal.network.backbone.blocks[0].attention.qkv.weight.grad.any()
    causal.requires_grad_(False).zero_grad()
    functional.cross_entropy(classifier(x), labels).backward()
    assert all(parameter.grad is None for parameter in causal.parameters())
    assert classifier[1].weight.grad.any()


def test_it_is_moved_copied_pickled_and_restored_as_any_module(causal: PretrainedModel) -> None:
    x = images(causal)
    expected = causal(x)
    for other in (causal.to("cpu"), copy.deepcopy(causal), pickle.loads(pickle.dumps(causal))):
        assert torch.equal(other(x), expected)
        assert torch.equal(other.sample(2), causal.sample(2))
    fresh = PretrainedModel(replace(causal.loaded, network=cases.network(causal.loaded.recipe)))
    assert not torch.equal(fresh(x), expected)
    fresh.load_state_dict(causal.state_dict())
    assert torch.equal(fresh(x), expected)


def test_load_takes_the_arguments_of_forward(causal: PretrainedModel, tmp_path: Path) -> None:
    x = images(causal)
    causal.save(tmp_path / "model")
    again = isopix.load(tmp_path / "model", layer=1, pool="max", features="residual", device="cpu")
    torch.testing.assert_close(again(x).detach(), causal.features(x, 1, pool="max", features="residual"))
    assert "layer 9 does not exist" in refusal(lambda: isopix.load(tmp_path / "model", layer=9, device="cpu"))
