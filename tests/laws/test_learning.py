"""Laws of the loss: where it starts, what it learns from, what it adds up to."""

from math import log

import pytest
import torch

from isopix.core.random import generator
from isopix.model.network import Network
from isopix.objectives.base import TrainingBatch, nll_per_image
from isopix.recipes.recipe import Recipe
from tests.golden.values import check_golden
from tests.laws import cases

every = pytest.mark.parametrize("recipe", cases.CASES, ids=cases.title)


def initial_loss(recipe: Recipe, net: Network, batch: TrainingBatch) -> float:
    """The loss before training: ln K, or half the mean square of targets scaled to [-1, 1]."""
    if recipe.model.head.categorical:
        return log(net.codec.vocab_size)
    squares = torch.linspace(-1, 1, net.codec.vocab_size).square()[batch.targets]
    loss_mask = batch.loss_mask.expand_as(squares)
    means = [own[counted].mean() for own, counted in zip(squares, loss_mask, strict=True)]
    return float(torch.stack(means).mean()) / 2


@every
def test_untrained_loss_is_that_of_uniform_codes_or_of_the_middle_of_the_range(recipe: Recipe) -> None:
    model = cases.model(recipe)
    batch = model.make_batch(cases.images(recipe), generator(0, "law"))
    assert model(batch).item() == pytest.approx(initial_loss(recipe, model.network, batch), rel=1e-6)


@every
def test_learns_one_batch_and_every_parameter_gets_a_gradient(recipe: Recipe) -> None:
    model = cases.model(recipe)
    batch = model.make_batch(cases.images(recipe), generator(0, "law"))
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    enough, steps, loss = 0.9 * initial_loss(recipe, model.network, batch), 0, torch.tensor(torch.inf)
    while loss.item() >= enough and steps < 30:
        optimizer.zero_grad()
        loss = model(batch)
        loss.backward()
        optimizer.step()
        steps += 1
    assert loss.item() < enough
    # The embedding of the last position of a shifted sequence is used too: nothing is left out.
    assert [name for name, p in model.named_parameters() if p.grad is None or not p.grad.any()] == []


@every
def test_losses_and_gradients_of_chunks_add_up_to_those_of_the_batch(recipe: Recipe) -> None:
    model = cases.busy_model(recipe).double()
    batch, parameters = model.make_batch(cases.images(recipe, 5), generator(0, "law")), [*model.parameters()]
    whole = torch.autograd.grad(model(batch), parameters)
    parts = [torch.autograd.grad(model(chunk), parameters) for chunk in batch.chunks(3)]
    for full, *chunks in zip(whole, *parts, strict=True):
        torch.testing.assert_close(sum(chunks), full, rtol=1e-6, atol=1e-8)
    untrained = [float(each.detach().double().square().sum()) for each in cases.network(recipe).parameters()]
    found = {
        "loss": float(model(batch).detach()),
        "gradients": [float(each.detach().norm()) for each in whole],
    }
    if recipe in cases.CASES:  # and not of a part that a test adds
        check_golden("parts", cases.title(recipe), {**found, "untrained": untrained})


@every
def test_permuting_the_batch_permutes_the_outputs(recipe: Recipe) -> None:
    model = cases.busy_model(recipe)
    x = cases.images(recipe, 4)
    mask = model.make_batch(x, generator(0, "law")).mask
    order = torch.tensor([2, 0, 3, 1])
    permuted = cases.head_output(model.network, x[order], None if mask is None else mask[order])
    expected = cases.head_output(model.network, x, mask)[order]
    torch.testing.assert_close(permuted, expected, rtol=1e-5, atol=1e-5)


@every
def test_unchanged_images_are_encoded_once(recipe: Recipe, monkeypatch: pytest.MonkeyPatch) -> None:
    model, calls, x = cases.model(recipe), list[int](), cases.images(recipe)
    replaced = not recipe.objective.make_batch(x, model.network.codec, generator(0, "law")).inputs.equal(x)
    encode = model.network.codec.encode
    monkeypatch.setattr(model.network.codec, "encode", lambda x: calls.append(len(x)) or encode(x))
    model(model.make_batch(x, generator(0, "law")))
    assert len(calls) == (2 if replaced and model.network.backbone.stem.reads_codes else 1)


@pytest.mark.parametrize("recipe", cases.masked(), ids=cases.title)
def test_masked_loss_is_the_mean_within_images_then_over_images(recipe: Recipe) -> None:
    """Against a loop over images that shares no code; an image with nothing in the loss does not count."""
    model = cases.busy_model(recipe)
    net, x = model.network, cases.images(recipe, 3)
    batch = recipe.objective.make_batch(x, net.codec, generator(0, "law"))
    shown = batch.inputs
    in_loss = batch.mask.clone()
    in_loss[1] = False
    targets = net.codec.encode(x)
    losses = cases.losses(net, shown, batch.mask, targets)
    counted = in_loss.expand_as(targets)
    means = [losses[b][counted[b]].mean() for b in (0, 2)]
    weights = torch.tensor([0.5, 0.0, 0.5])
    batch = batch._replace(inputs=net.inputs_of(shown), loss_mask=in_loss, weights=weights)
    torch.testing.assert_close(model.eval_loss(batch), sum(means) / 2, rtol=1e-5, atol=1e-6)
    own = nll_per_image(net, batch)
    torch.testing.assert_close(own[[0, 2]], torch.stack(means), rtol=1e-5, atol=1e-6)
    assert own[1] == 0


@pytest.mark.parametrize("recipe", cases.autoregressive(), ids=cases.title)
def test_autoregressive_loss_is_the_mean_over_all_positions(recipe: Recipe) -> None:
    model = cases.busy_model(recipe)
    x = cases.images(recipe, 3)
    expected = cases.losses(model.network, x, None, model.network.codec.encode(x)).mean()
    loss = model(model.make_batch(x, generator(0, "law")))
    torch.testing.assert_close(loss, expected, rtol=1e-5, atol=1e-6)
