import math

import pytest
import torch

from isopix.core.random import generator
from isopix.objectives.base import TrainingBatch
from isopix.train.optim import Adam
from isopix.train.tasks import PretrainTask
from isopix.train.train_step import NonFiniteError, TrainStep
from tests.laws import cases

RECIPE = cases.CASES[0]


def make_step(accumulate: int = 1, *, recipe=RECIPE) -> TrainStep:
    task = PretrainTask(cases.model(recipe))
    return TrainStep(task, Adam(), accumulate=accumulate, precision="fp32", compiled=False)


def batch(one: TrainStep, step: int = 0, recipe=RECIPE) -> TrainingBatch:
    return one.task.make_batch(cases.images(recipe, 8), None, generator(0, "step", step))


def weights(one: TrainStep) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in one.task.module.named_parameters()}


@pytest.mark.parametrize("poison", [math.nan, math.inf])
@pytest.mark.parametrize("where", ["image weights", "model weight"])
def test_no_weight_changes_from_the_first_non_finite_step_on(poison: float, where: str) -> None:
    """Whether the loss itself is not finite, or a weight that reaches loss and gradient."""
    one = make_step()
    for step in (1, 2):
        one(batch(one, step), step=step, lr_factor=1.0)
    one.check()
    bad = batch(one, 3)
    if where == "image weights":
        bad = bad._replace(weights=bad.weights * poison)
    else:
        with torch.no_grad():
            one.task.module.network.backbone.norm.weight[0] = poison
    before = weights(one)
    for step, each in ((3, bad), (4, batch(one, 4))):
        one(each, step=step, lr_factor=1.0)
    with pytest.raises(NonFiniteError, match="not finite at step 3; the weights are as before that step"):
        one.check()
    after = weights(one)
    assert all(torch.equal(before[name].nan_to_num(), after[name].nan_to_num()) for name in before)


def test_an_infinite_gradient_of_a_finite_loss_is_not_applied() -> None:
    one = make_step()
    one(batch(one), step=1, lr_factor=1.0)
    one.task.module.network.backbone.positions.table.register_hook(lambda gradient: gradient * math.inf)
    before = weights(one)
    loss = one(batch(one), step=2, lr_factor=1.0)
    assert torch.isfinite(loss)
    assert all(torch.equal(before[name], value) for name, value in weights(one).items())
    with pytest.raises(NonFiniteError, match="step 2"):
        one.check()


@pytest.mark.parametrize("recipe", [cases.CASES[0], cases.CASES[1]], ids=cases.title)
def test_accumulation_changes_rounding_alone(recipe) -> None:
    whole, pieces = make_step(recipe=recipe), make_step(4, recipe=recipe)
    for step in range(1, 4):
        losses = [one(batch(one, step, recipe), step=step, lr_factor=1.0) for one in (whole, pieces)]
        torch.testing.assert_close(losses[0], losses[1], rtol=1e-5, atol=1e-6)


def test_the_optimizer_is_the_papers_adam() -> None:
    """Against the update written out: beta 0.9 and 0.95, no decay, corrected for the start."""
    one = make_step()
    head = one.task.module.network.head.project.weight
    first, second, value = torch.zeros_like(head), torch.zeros_like(head), head.detach().clone()
    for step in (1, 2, 3):
        one(batch(one, step), step=step, lr_factor=0.5)
        gradient = head.grad
        first = 0.9 * first + 0.1 * gradient
        second = 0.95 * second + 0.05 * gradient**2
        corrected = (second / (1 - 0.95**step)).sqrt() + 1e-8
        value = value - 0.5 * 0.003 * (first / (1 - 0.9**step)) / corrected
        torch.testing.assert_close(head.detach(), value, rtol=1e-4, atol=1e-7)
