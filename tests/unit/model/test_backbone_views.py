"""Backbones that share the parts of another: truncated ones, and those with another masking."""

from dataclasses import replace

import pytest
import torch

from isopix.model.masking import ZeroMasking
from isopix.model.network import Network
from isopix.pretrained.model import PretrainedModel
from tests.laws import cases
from tests.unit.api.test_pretrained import CAUSAL, images, model


@pytest.fixture
def dropping() -> Network:
    recipe = cases.CASES[0]
    network = cases.busy(replace(recipe, model=replace(recipe.model, embedding_dropout=0.5)))
    return network.eval()


def test_they_drop_nothing_in_evaluation_and_do_in_training(dropping: Network) -> None:
    backbone, x = dropping.backbone, dropping.inputs_of(cases.images(cases.CASES[0]))
    for training in (False, True):
        dropping.train(training)
        for other in (backbone.truncated(1), backbone.with_masking(ZeroMasking())):
            assert other.training == training
            assert torch.equal(other.embed(x), other.embed(x)) != training


def test_a_model_in_evaluation_mode_returns_the_same_features_each_time() -> None:
    found = model(CAUSAL)
    found.network.backbone.dropout.p = 0.5
    x = images(found)
    assert not found.training
    torch.testing.assert_close(found(x), PretrainedModel(found.loaded)(x), rtol=0, atol=0)
    torch.testing.assert_close(found(x).detach(), found.features(x))
