"""Laws of the loss: where it starts, what it learns from, what it adds up to."""

import pytest
import torch

from isopix.core.random import generator
from isopix.recipes.recipe import Recipe
from tests.laws import cases

every = pytest.mark.parametrize("recipe", cases.CASES, ids=cases.title)


@every
def test_untrained_loss_is_that_of_every_level_alike_or_of_the_middle_one(recipe: Recipe) -> None:
    net = cases.network(recipe)
    problem = net.prepare(cases.images(recipe), generator(0, "law"))
    assert net(problem).item() == pytest.approx(cases.start(recipe, net, problem), rel=1e-6)


@every
def test_learns_one_batch_and_every_parameter_gets_a_gradient(recipe: Recipe) -> None:
    net = cases.network(recipe)
    problem = net.prepare(cases.images(recipe), generator(0, "law"))
    optimizer = torch.optim.Adam(net.parameters(), 1e-2)
    for _ in range(30):
        optimizer.zero_grad()
        loss = net(problem)
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.9 * cases.start(recipe, net, problem)
    still = [name for name, p in net.named_parameters() if p.grad is None or not p.grad.any()]
    # The vector of the last position of a shifted sequence still answers; nothing is left out.
    assert still == []


@every
def test_pieces_of_a_batch_add_up_to_its_loss_and_gradient(recipe: Recipe) -> None:
    net = cases.busy(recipe).double()
    problem = net.prepare(cases.images(recipe, 5), generator(0, "law"))
    whole = torch.autograd.grad(net(problem), list(net.parameters()))
    parts = [torch.autograd.grad(net(piece), list(net.parameters())) for piece in problem.chunks(3)]
    for full, *shares in zip(whole, *parts, strict=True):
        torch.testing.assert_close(sum(shares), full, rtol=1e-6, atol=1e-8)


@every
def test_permuting_the_batch_permutes_the_answers(recipe: Recipe) -> None:
    net = cases.busy(recipe)
    x = cases.images(recipe, 4)
    hidden = net.prepare(x, generator(0, "law")).hidden
    order = torch.tensor([2, 0, 3, 1])
    moved = cases.numbers(net, x[order], None if hidden is None else hidden[order])
    torch.testing.assert_close(moved, cases.numbers(net, x, hidden)[order], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("recipe", cases.masked(), ids=cases.title)
def test_masked_loss_is_the_mean_within_images_then_over_images(recipe: Recipe) -> None:
    """Against a loop over images that shares no code; one image with nothing hidden does not count."""
    net = cases.busy(recipe)
    x = cases.images(recipe, 3)
    problem = net.prepare(x, generator(0, "law"))
    hidden = problem.hidden.clone()
    hidden[1] = False
    answers = net.codec.encode(x)
    losses = cases.nats(net, problem.images, hidden, answers)
    counted = hidden.expand_as(answers)
    means = [losses[b][counted[b]].mean() for b in (0, 2)]
    share = torch.tensor([0.5, 0.0, 0.5])
    problem = problem._replace(hidden=hidden, graded=hidden, share=share)
    torch.testing.assert_close(net.nats(problem), sum(means) / 2, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(net.nll(problem)[[0, 2]], torch.stack(means), rtol=1e-5, atol=1e-6)
    assert net.nll(problem)[1] == 0


@pytest.mark.parametrize("recipe", cases.autoregressive(), ids=cases.title)
def test_autoregressive_loss_is_the_mean_over_all_positions(recipe: Recipe) -> None:
    net = cases.busy(recipe)
    x = cases.images(recipe, 3)
    chances = net.logits(x).log_softmax(-1)
    expected = -chances.gather(-1, net.codec.encode(x)[..., None]).mean()
    torch.testing.assert_close(net(net.prepare(x, generator(0, "law"))), expected, rtol=1e-5, atol=1e-6)
