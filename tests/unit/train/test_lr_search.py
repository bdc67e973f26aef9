"""The descent goes from large to small, ends where the final loss rises, and chooses the best."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from isopix.train.divergence import Spike
from isopix.train.lr_search import LRSearch, LRTrial, descend, lr_grid

CHANCE, STEPS = 3.0, 500
KNOWN = 0.01  # stable below 2 / 150; at 0.003 the flat direction has not come down after 500 steps


def test_the_rates_are_the_papers() -> None:
    assert lr_grid(0.01, 0.0003) == (0.01, 0.003, 0.001, 0.0003)
    assert lr_grid(30.0, 1.0) == (30, 10, 3, 1)


def test_a_first_rate_of_ones_own_comes_before_those_of_the_ladder() -> None:
    assert lr_grid(0.02, 0.001) == (0.02, 0.01, 0.003, 0.001)
    assert lr_grid(0.005, 0.004) == (0.005,)


@pytest.mark.parametrize(
    ("first", "smallest"), [(0.001, 0.01), (0.01, 0.0), (-1.0, -2.0), (math.inf, 1.0), (math.nan, 1.0)]
)
def test_rates_that_do_not_descend_are_refused(first: float, smallest: float) -> None:
    with pytest.raises(ValueError, match="the rates go from"):
        lr_grid(first, smallest)


def ended(*losses: float | None) -> LRSearch:
    """The descent whose rungs have these final losses; None: it died."""
    told = iter(losses)

    def run(rate: float) -> LRTrial:
        loss = next(told)
        return LRTrial(rate, "spiked" if loss is None else "final", 10, loss, 1.0)

    return [LRSearch(lr_grid(0.01, 0.0001)), *descend(LRSearch(lr_grid(0.01, 0.0001)), run)][-1]


@pytest.mark.parametrize(
    ("losses", "rungs", "chosen"),
    [
        ((2.0, 3.0), 2, 0.01),
        ((None, None, 2.0, 3.0), 4, 0.001),
        ((3.0, 2.0, 2.5), 3, 0.003),
        ((3.0, None, 3.5), 3, 0.01),  # the dead rung between them is passed over
        ((3.0, 2.5, 2.5, 2.0, 1.0), 5, 0.0001),
        ((None, None, None, None, None), 5, None),
    ],
)
def test_the_descent_ends_at_the_first_rise_and_the_lowest_loss_is_chosen(
    losses: tuple[float | None, ...], rungs: int, chosen: float | None
) -> None:
    descent = ended(*losses)
    assert len(descent.rungs) == rungs
    assert descent.finished
    assert (descent.chosen and descent.chosen.rate) == chosen


def test_nothing_is_chosen_before_the_end() -> None:
    descent = LRSearch((0.01, 0.003), (LRTrial(0.01, "final", 10, 2.0, 1.0),))
    assert not descent.finished
    assert descent.chosen is None
    assert descent.untried == (0.003,)


def test_a_descent_goes_on_where_it_was_and_a_stop_ends_it() -> None:
    asked: list[float] = []

    def stop(rate: float) -> None:
        asked.append(rate)

    began = LRSearch((0.01, 0.003, 0.001), (LRTrial(0.01, "spiked", 5, None, 1.0),))
    assert list(descend(began, stop)) == []
    assert asked == [0.003]


def quadratic(seed: int, report: Callable[[float], float]) -> Callable[[float], LRTrial]:
    """Noisy gradient descent on a steep and a flat direction; the loss is what `report` makes of the true."""

    def run(rate: float) -> LRTrial:
        draw = np.random.default_rng(seed)
        steepness, place = np.array([150.0, 1.0]), np.array([0.1, 2.1])
        spike = Spike(STEPS, before=CHANCE)
        for step in range(1, STEPS + 1):
            loss = report(float(steepness @ place**2 / 2))
            if not math.isfinite(loss):
                return LRTrial(rate, "non-finite", step, None, 0.0)
            spike.see(step, loss)
            if spike.dead and spike.since is not None:
                return LRTrial(rate, "spiked", spike.since, None, 0.0)
            place = place - rate * (steepness * place + 0.1 * draw.standard_normal(2))
        return LRTrial(rate, "final", STEPS, report(float(steepness @ place**2 / 2)), 0.0)

    return run


@np.errstate(over="ignore", invalid="ignore")
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    ("report", "deaths"),
    [
        (lambda loss: loss if loss < 1e4 else math.inf, {"non-finite"}),
        (lambda loss: loss, {"spiked"}),
        (lambda loss: min(loss, 5.0), {"spiked"}),
    ],
    ids=["overflows", "grows", "ends above chance"],
)
def test_a_toy_that_diverges_ends_at_the_known_rung(
    seed: int, report: Callable[[float], float], deaths: set[str]
) -> None:
    *_, descent = descend(LRSearch(lr_grid(0.1, 0.0001)), quadratic(seed, report))
    assert [rung.lr for rung in descent.rungs] == [0.1, 0.03, 0.01, 0.003]
    assert {rung.status for rung in descent.rungs[:2]} == deaths
    assert [rung.status for rung in descent.rungs[2:]] == ["final", "final"]
    assert descent.chosen is not None
    assert descent.chosen.rate == KNOWN
