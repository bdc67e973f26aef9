"""Laws of a last block that is asked of some places alone: nothing but its cost changes."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from isopix.core.random import generator
from isopix.data.dataset import DataConfig
from isopix.model.network import Network
from isopix.recipes.recipe import Recipe
from tests.laws import cases

SELECTING = [case for case in cases.masked() if cases.network(case).backbone.selects]
SIDE = 20  # of fewer positions a mask may hide any number
HIDING = [
    replace(
        case,
        data=DataConfig(rows=SIDE * case.model.codec.patch_size, cols=SIDE * case.model.codec.patch_size),
    )
    for case in SELECTING
]


def everywhere(net: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last block answers at all positions."""
    monkeypatch.setattr(type(net.backbone), "selects", False)


def test_there_are_cases_with_a_class_token_and_without_in_one_channel_and_in_three() -> None:
    assert {case.model.class_token for case in SELECTING} == {True, False}
    assert {case.objective.mask.kind for case in HIDING} >= {"independent", "subpixel"}


@pytest.mark.parametrize("recipe", SELECTING, ids=cases.title)
def test_what_is_answered_at_some_places_is_what_is_answered_there_among_all(recipe: Recipe) -> None:
    net = cases.busy(recipe).double()
    x = cases.images(recipe)
    hidden = net.prepare(x, generator(0, "law")).hidden
    places = torch.rand(len(x), recipe.grid.positions, generator=generator(0, "places")).argsort(1)[:, :3]
    among = torch.take_along_dim(net.backbone(x, hidden), places[..., None], 1)
    torch.testing.assert_close(net.backbone.asked(x, hidden, places), among, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("recipe", HIDING, ids=cases.title)
def test_loss_and_gradients_are_those_of_answers_everywhere_at_fewer_flops(
    recipe: Recipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    net = cases.busy(recipe).double()
    problem = net.prepare(cases.images(recipe), generator(0, "law"))
    loss, gradients, flops = measured(net, problem)
    everywhere(net, monkeypatch)
    loss_everywhere, gradients_everywhere, flops_everywhere = measured(net, problem)
    torch.testing.assert_close(loss, loss_everywhere, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(gradients, gradients_everywhere, rtol=1e-6, atol=1e-9)
    assert flops < flops_everywhere


def measured(net: Network, problem: object) -> tuple[Tensor, tuple[Tensor, ...], int]:
    """The loss, the gradient of every parameter, and the FLOPs of both."""
    with FlopCounterMode(display=False) as counter:
        loss = net(problem)
        gradients = torch.autograd.grad(loss, list(net.parameters()))
    return loss, gradients, counter.get_total_flops()


def test_images_with_more_and_with_fewer_graded_positions_have_as_many_places() -> None:
    """All that is graded is among them, each once."""
    recipe = HIDING[0]
    net = cases.busy(recipe)
    problem = net.prepare(cases.images(recipe, 5), generator(0, "law"))
    places = net.objective.places(problem)
    graded = problem.graded.any(-1)
    assert len(set(graded.sum(1).tolist())) > 1
    assert all(len(set(row.tolist())) == len(row) for row in places)
    assert torch.equal(torch.take_along_dim(graded, places, 1).sum(1), graded.sum(1))
    assert places.shape[1] < recipe.grid.positions
