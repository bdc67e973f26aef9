"""The checks of a device: other losses, gradients that are not finite, and other samples are noticed."""

import math

import pytest

from isopix.benchmarks import correctness, networks
from isopix.benchmarks.correctness import CorrectnessSize
from isopix.benchmarks.numerics import NumericsError
from isopix.generate.config import SamplingConfig
from tests.unit.benchmarks.tiny import CPU, measured

SIZE = CorrectnessSize(images=2, compiled=False)


def test_all_checks_are_run_and_nothing_is_timed() -> None:
    found = measured("correctness")
    assert found.times == {}
    for part in ("10 losses equal on cpu", "gradients finite", "greedy samples"):
        assert part in found.checked


@pytest.mark.parametrize("name", correctness.RECIPES)
def test_every_recipe_trains(name: str) -> None:
    losses = correctness.training_losses(networks.find_recipe(name), 2, CPU, compiled=False)
    assert len(losses) == 10
    assert losses[-1] < losses[0]


def test_other_losses_of_a_device_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    drift = iter([0.0, 0.05])
    monkeypatch.setattr(correctness, "training_losses", lambda *given, **how: [3.0, 2.0 + next(drift)])
    monkeypatch.setattr(correctness, "CPU", None)  # so that there is another device
    with pytest.raises(
        NumericsError, match=r"igpt.digits, cpu: losses \[3.0, 2.05\] instead of \[3.0, 2.0\]"
    ):
        correctness.require_equal_training("igpt.digits", SIZE, CPU)


def test_the_traps_have_64_positions_modulo_128_and_large_scores() -> None:
    for rows, cols in correctness.TRAP_SIDES:
        recipe = correctness.trap_recipe(rows, cols, 32)
        assert recipe.grid.positions % 128 == 64
        assert recipe.objective.masks_input
        assert (recipe.model.width, recipe.model.block.heads) == (32, 1)


def test_gradients_that_are_not_finite_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = correctness.trap_recipe(8, 8, 32)
    assert correctness.require_finite_gradients(recipe, 2, CPU).endswith("gradients finite")
    monkeypatch.setattr(correctness, "TRAP_SCALE", math.inf)
    with pytest.raises(NumericsError, match="64 positions, 32 channels a head: the loss or its gradient"):
        correctness.require_finite_gradients(recipe, 2, CPU)


def test_samples_that_are_not_greedy_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    right = correctness.sample_images

    def random(model: object, count: int, **settings: object) -> object:
        return right(model, count, **{**settings, "sampling": SamplingConfig()})

    monkeypatch.setattr(correctness, "sample_images", random)
    with pytest.raises(NumericsError, match="greedy samples on cpu"):
        correctness.require_greedy_samples("igpt.digits", CPU)
