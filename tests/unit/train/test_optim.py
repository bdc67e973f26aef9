"""Optimizers and schedules, by hand."""

import math
from itertools import pairwise

import pytest
import torch
from torch import nn

from isopix.train.config import AdamW, AdamWeightDecay, WarmupCosineSchedule

STEPS, EPOCH = 1000, 50


def test_decay_shrinks_matrices_and_leaves_norms_and_biases() -> None:
    """With a gradient of zero, decay is all that moves a weight."""
    layer, norm = nn.Linear(3, 2), nn.LayerNorm(2)
    with torch.no_grad():
        layer.bias.fill_(1.0)
    weight = layer.weight.detach().clone()
    optimizer = AdamW(lr=0.5, weight_decay=0.1).build([*layer.parameters(), *norm.parameters()])
    for parameter in (*layer.parameters(), *norm.parameters()):
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    torch.testing.assert_close(layer.weight.detach(), weight * (1 - 0.5 * 0.1))
    assert (layer.bias == 1).all()
    assert (norm.weight == 1).all()


def test_adam_weight_decay_is_berts() -> None:
    """google-research/bert, optimization.py: moments without correction, epsilon added to the root."""
    layer = nn.Linear(3, 2)
    frozen = nn.Parameter(torch.ones(2), requires_grad=False)
    weight, mean, square = layer.weight.detach().clone().double(), 0.0, 0.0
    optimizer = AdamWeightDecay(lr=0.1, weight_decay=0.01).build([*layer.parameters(), frozen])
    for step in range(1, 6):
        gradient = torch.linspace(-1, 1, 6).view(2, 3) * step
        layer.weight.grad = gradient.clone()
        optimizer.step()
        mean, square = 0.9 * mean + 0.1 * gradient, 0.999 * square + 0.001 * gradient.square()
        weight -= 0.1 * (mean / (square.sqrt() + 1e-6) + 0.01 * weight)
    torch.testing.assert_close(layer.weight.detach().double(), weight, rtol=1e-5, atol=1e-6)
    assert frozen not in optimizer.state


def factors(schedule: WarmupCosineSchedule, steps: int = STEPS, epoch: int = EPOCH) -> list[float]:
    return [schedule.factor(step, steps=steps, epoch=epoch) for step in range(steps + 1)]


def test_warm_up_takes_one_epoch_and_half_a_cosine_the_rest() -> None:
    rates = factors(WarmupCosineSchedule())
    assert rates[0] == 1 / EPOCH
    assert rates[EPOCH - 1] == 1 == max(rates)
    assert all(later > earlier for earlier, later in pairwise(rates[:EPOCH]))
    # half a cosine reaches zero one step after the last
    middle = EPOCH + (STEPS - EPOCH) // 2
    assert rates[middle] == pytest.approx(0.5)
    assert rates[STEPS] == pytest.approx(0, abs=1e-12)
    assert rates[STEPS - 1] == pytest.approx(0.5 * (1 + math.cos(math.pi * (949 / 950))))


def test_a_run_shorter_than_an_epoch_warms_up_for_a_tenth() -> None:
    rates = factors(WarmupCosineSchedule(), steps=100, epoch=5000)
    assert rates.index(1.0) == 9
