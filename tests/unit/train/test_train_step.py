"""Steps by hand, resumed, clipped and poisoned."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from isopix.core.random import generator
from isopix.objectives.base import TrainingBatch
from isopix.storage import checkpoint
from isopix.train.config import SGD, AdamWeightDecay, LinearEndSchedule, OptimizerSpec, TrainConfig
from isopix.train.muon import Muon
from isopix.train.tasks import PretrainTask
from isopix.train.train_step import TrainStep
from tests.laws import cases

RECIPE = cases.CASES[0]


def make_step(**settings: Any) -> TrainStep:
    return TrainStep(PretrainTask(cases.model(RECIPE)), TrainConfig(precision="fp32", **settings))


def batch(one: TrainStep, step: int = 0) -> TrainingBatch:
    return one.task.make_batch(cases.images(RECIPE, 8), None, generator(0, "step", step))


def weights(one: TrainStep) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in one.task.module.named_parameters()}


@pytest.mark.parametrize("poison", [math.nan, math.inf])
@pytest.mark.parametrize("where", ["image weights", "model weight"])
def test_no_weight_changes_from_the_first_non_finite_step_on(poison: float, where: str) -> None:
    """Whether the loss itself is not finite, or a weight that reaches loss and gradient."""
    one = make_step()
    for step in (1, 2):
        one(batch(one, step), step=step, lr_factor=1.0)
    assert one.nonfinite_steps() == []
    bad = batch(one, 3)
    if where == "image weights":
        bad = bad._replace(weights=bad.weights * poison)
    else:
        with torch.no_grad():
            one.task.module.network.backbone.norm.weight[0] = poison
    before = weights(one)
    for step, each in ((3, bad), (4, batch(one, 4))):
        one(each, step=step, lr_factor=1.0)
    assert one.nonfinite_steps()[0] == 3
    after = weights(one)
    assert all(torch.equal(before[name].nan_to_num(), after[name].nan_to_num()) for name in before)


class Momentum(torch.optim.Optimizer):
    """Momentum, and a count of its updates, for matrices only; other learning rates for vectors."""

    def __init__(self, parameters, lr: float):
        parameters = list(parameters)
        groups = [
            {"params": [p for p in parameters if p.ndim > 1], "lr": lr},
            {"params": [p for p in parameters if p.ndim <= 1], "lr": lr / 4},
        ]
        super().__init__(groups, {"lr": lr})

    @torch.no_grad()
    def step(self, closure=None) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                update = p.grad
                if p.ndim > 1:
                    state = self.state[p]
                    state["count"] = state.get("count", 0) + 1
                    state["rate"] = 0.1 / state["count"]
                    update = state.setdefault("moment", torch.zeros_like(p)).mul_(0.9).add_(p.grad)
                p.sub_(group["lr"] * update)


class Built(OptimizerSpec):
    """An optimizer of the class that a test names."""

    kind = "built"
    lr: float = 0.25
    cls: Any = Momentum

    def build(self, parameters) -> torch.optim.Optimizer:
        return self.cls([each for _, each in parameters], self.lr)


PLAIN = [Momentum, torch.optim.SGD, torch.optim.RMSprop, torch.optim.Adagrad, torch.optim.NAdam]


def test_every_group_has_its_own_learning_rate() -> None:
    """The first update of each parameter is its group's rate times its gradient."""
    one = make_step(optimizer=Built(lr=0.25))
    before = weights(one)
    one(batch(one, 1), step=1, lr_factor=0.5)
    assert [group["lr"] for group in one.optimizer.param_groups] == [0.125, 0.03125]
    for name, parameter in one.task.module.named_parameters():
        rate = 0.125 if parameter.ndim > 1 else 0.03125
        torch.testing.assert_close(parameter.detach(), before[name] - rate * parameter.grad)


def test_the_learning_rate_falls_with_the_distance_from_the_head() -> None:
    """BEiT's rule, of the first update: 0.5^(L + 1 - l) of block l of L = 2, in each of the groups."""
    one = make_step(optimizer=Built(lr=0.25), layer_decay=0.5)
    before = weights(one)
    one(batch(one, 1), step=1, lr_factor=1.0)
    scales = {"stem": 0.125, "positions": 0.125, "masking": 0.125, "blocks.0": 0.25, "blocks.1": 0.5}
    scales |= {"backbone.norm": 1.0, "head": 1.0}
    for name, parameter in one.task.module.named_parameters():
        [scale] = (scale for part, scale in scales.items() if f"{part}." in name)
        rate = scale * (0.25 if parameter.ndim > 1 else 0.0625)
        torch.testing.assert_close(parameter.detach(), before[name] - rate * parameter.grad)


def test_the_average_of_the_weights_is_that_of_the_formula_and_is_exchanged_for_them() -> None:
    """Decay 0.2, but (1 + 1) / (10 + 1) in step 1, which has the first weights only."""
    one, expected = make_step(ema=0.2), {}
    with one.averaged():
        initial = weights(one)
    assert all(torch.equal(value, initial[name]) for name, value in weights(one).items())
    for step in (1, 2, 3, 4):
        one(batch(one, step), step=step, lr_factor=1.0)
        decay = min(0.2, (1 + step) / (10 + step))
        now = weights(one)
        expected = {
            name: decay * expected.get(name, value) + (1 - decay) * value for name, value in now.items()
        }
    with one.averaged():
        torch.testing.assert_close(weights(one), expected, rtol=1e-5, atol=1e-7)
    assert all(torch.equal(value, now[name]) for name, value in weights(one).items())
    with pytest.raises(ValueError, match="ema needs the whole weights"):
        TrainConfig(ema=0.2, parallel="fsdp").check_ranks(2)


@pytest.mark.parametrize("spec", [*(Built(lr=0.001, cls=cls) for cls in PLAIN), Muon()], ids=str)
def test_a_resumed_optimizer_goes_on_as_one_that_was_not_stopped(spec: OptimizerSpec, tmp_path: Path) -> None:
    """Also one with state of some parameters only, and with numbers among it; through the file itself."""
    whole, start, end = (make_step(optimizer=spec) for _ in range(3))
    for step in (1, 2):
        start(batch(start, step), step=step, lr_factor=1.0)
    groups = {"model": start.task.module.network.tensors(), "optimizer": start.state()}
    checkpoint.save_checkpoint(tmp_path / "step-00000002", groups, {})
    saved = checkpoint.load_checkpoint(tmp_path / "step-00000002").tensors
    end.task.module.network.load(saved["model"])
    end = TrainStep(end.task, end.config)
    end.load(saved["optimizer"])
    for step in (1, 2, 3, 4):
        whole(batch(whole, step), step=step, lr_factor=1.0)
        if step > 2:
            end(batch(end, step), step=step, lr_factor=1.0)
    assert all(torch.equal(value, weights(whole)[name]) for name, value in weights(end).items())
    counts = [[each.get("count") for each in one.optimizer.state.values()] for one in (whole, end)]
    assert counts[0] == counts[1]
    assert spec != Built(lr=0.001) or set(counts[0]) == {4}


def test_state_that_a_fused_optimizer_would_read_or_write_beyond_is_refused() -> None:
    one = make_step()
    one(batch(one, 1), step=1, lr_factor=1.0)
    short = {"network.head.project.weight/exp_avg": torch.zeros(1)}
    with pytest.raises(ValueError, match=r"is \(1,\) of torch.float32, not"):
        make_step().load(one.state() | short)


@pytest.mark.parametrize("max_norm", [0.01, 1e6])
def test_a_large_gradient_is_scaled_down_to_the_norm_and_a_small_one_kept(max_norm: float) -> None:
    """A first step of plain SGD moves the weights by lr times the gradient, whole or of four chunks."""
    moved = []
    for limit, chunks in ((None, 1), (max_norm, 4)):
        one = make_step(optimizer=SGD(lr=0.5, momentum=0.0), accumulate=chunks, max_grad_norm=limit)
        before = weights(one)
        one(batch(one), step=1, lr_factor=1.0)
        after = weights(one)
        moved.append(torch.cat([(before[name] - after[name]).double().flatten() / 0.5 for name in before]))
    norm = moved[0].norm()
    torch.testing.assert_close(moved[1], moved[0] * min(1.0, max_norm / norm.item()), rtol=1e-4, atol=1e-6)
    assert norm > 0.01


def test_adam_weight_decay_is_berts() -> None:
    """google-research/bert, optimization.py: moments without correction, epsilon added to the root."""
    layer = nn.Linear(3, 2)
    frozen = nn.Parameter(torch.ones(2), requires_grad=False)
    weight, mean, square = layer.weight.detach().clone().double(), 0.0, 0.0
    named = [*layer.named_parameters(), ("frozen", frozen)]
    optimizer = AdamWeightDecay(lr=0.1, weight_decay=0.01).build(named)
    for step in range(1, 6):
        gradient = torch.linspace(-1, 1, 6).view(2, 3) * step
        layer.weight.grad = gradient.clone()
        optimizer.step()
        mean, square = 0.9 * mean + 0.1 * gradient, 0.999 * square + 0.001 * gradient.square()
        weight -= 0.1 * (mean / (square.sqrt() + 1e-6) + 0.01 * weight)
    torch.testing.assert_close(layer.weight.detach().double(), weight, rtol=1e-5, atol=1e-6)
    assert frozen not in optimizer.state


def test_muon_updates_the_matrices_of_blocks_and_adam_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """As PyTorch's two optimizers do one after the other, each with a rate of its own, also by layer."""
    monkeypatch.setattr(torch.Tensor, "bfloat16", torch.Tensor.float)  # in PyTorch's iterations
    one, other = make_step(optimizer=Muon()), make_step()
    matrices, rest = [], []
    for name, each in other.task.module.named_parameters():
        (matrices if "blocks" in name and name.endswith("weight") and each.ndim == 2 else rest).append(each)
    peers = torch.optim.Muon(matrices, 0.02, 0.0, 0.95), torch.optim.Adam(rest, 0.003, (0.9, 0.95))
    for step in (1, 2, 3):
        one(batch(one, step), step=step, lr_factor=0.5)
        other.task.losses(batch(other, step))["loss_nats"].backward()
        for peer, lr in zip(peers, (0.01, 0.0015), strict=True):
            peer.param_groups[0]["lr"] = lr
            peer.step()
            peer.zero_grad()
    for name, each in other.task.module.named_parameters():
        torch.testing.assert_close(weights(one)[name], each.detach(), rtol=1e-4, atol=1e-4)  # lr + 2%: 2e-3


def test_a_linear_end_begins_where_it_says() -> None:
    """Of 20 steps, 2 of warmup and 10 of the end, which reaches zero one step after the last."""
    schedule = LinearEndSchedule(warmup=0.1, end=0.5)
    factors = [schedule.factor(step, steps=20, epoch=1) for step in range(20)]
    assert factors == pytest.approx([0.5, *[1.0] * 10, *(each / 10 for each in range(9, 0, -1))])
