"""Laws of a last block that is computed at some positions only: nothing but its cost changes."""

import pytest
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from isopix.core.random import generator
from isopix.data.dataset import DataConfig
from isopix.objectives.base import PretrainModel, TrainingBatch
from isopix.recipes.recipe import Recipe
from tests.laws import cases

SUPPORTING = [case for case in cases.masked() if cases.network(case).backbone.supports_forward_at]
SIDE = 20  # on smaller grids a mask may cover any number of positions
LARGER = [
    case.updated(
        data=DataConfig(rows=SIDE * case.model.codec.patch_size, cols=SIDE * case.model.codec.patch_size)
    )
    for case in SUPPORTING
]


def test_there_are_cases_with_and_without_class_token_of_whole_positions_and_of_single_channels() -> None:
    assert {case.model.class_token for case in SUPPORTING} == {True, False}
    assert {case.objective.mask.kind for case in LARGER} >= {"bernoulli", "per_channel"}


@pytest.mark.parametrize("recipe", SUPPORTING, ids=cases.title)
def test_outputs_at_some_positions_equal_those_of_the_whole_forward_pass(recipe: Recipe) -> None:
    model = cases.busy_model(recipe).double()
    backbone, batch = model.network.backbone, model.make_batch(cases.images(recipe), generator(0, "law"))
    positions = torch.rand(3, recipe.grid.positions, generator=generator(0, "places")).argsort(1)[:, :3]
    expected = torch.take_along_dim(backbone(batch.inputs, batch.mask), positions[..., None], 1)
    found = backbone.forward_at(batch.inputs, batch.mask, positions)
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("recipe", LARGER, ids=cases.title)
def test_loss_and_gradients_are_the_same_at_fewer_flops(
    recipe: Recipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = cases.busy_model(recipe).double()
    batch = model.make_batch(cases.images(recipe), generator(0, "law"))
    loss, gradients, flops = measure(model, batch)
    monkeypatch.setattr(type(model.network.backbone), "supports_forward_at", False)
    loss_everywhere, gradients_everywhere, flops_everywhere = measure(model, batch)
    torch.testing.assert_close(loss, loss_everywhere, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(gradients, gradients_everywhere, rtol=1e-6, atol=1e-9)
    assert flops < flops_everywhere


def measure(model: PretrainModel, batch: TrainingBatch) -> tuple[Tensor, tuple[Tensor, ...], int]:
    """The loss, the gradient of every parameter, and the FLOPs of both."""
    with FlopCounterMode(display=False) as counter:
        loss = model(batch)
        gradients = torch.autograd.grad(loss, list(model.parameters()))
    return loss, gradients, counter.get_total_flops()
