"""The search goes from large to small, ends where the final loss increases, and selects the best."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from isopix.runs.lr_search import continue_search, lr_grid
from isopix.runs.results import LRSearch, LRTrial
from isopix.train.stopping import DivergenceDetector

CHANCE, STEPS = 3.0, 500
KNOWN = 0.01  # stable below 2 / 150; at 0.003 the flat direction has not come down after 500 steps


def test_the_learning_rates_are_the_papers() -> None:
    assert lr_grid(0.01, 0.0003) == (0.01, 0.003, 0.001, 0.0003)
    assert lr_grid(30.0, 1.0) == (30, 10, 3, 1)


def test_any_first_learning_rate_comes_before_those_of_the_grid() -> None:
    assert lr_grid(0.02, 0.001) == (0.02, 0.01, 0.003, 0.001)
    assert lr_grid(0.005, 0.004) == (0.005,)


@pytest.mark.parametrize(
    ("first", "smallest"), [(0.001, 0.01), (0.01, 0.0), (-1.0, -2.0), (math.inf, 1.0), (math.nan, 1.0)]
)
def test_learning_rates_that_do_not_decrease_are_refused(first: float, smallest: float) -> None:
    with pytest.raises(ValueError, match="learning rates from"):
        lr_grid(first, smallest)


def ended(*losses: float | None) -> LRSearch:
    """Return the search whose trials have these final losses; None: it diverged."""
    remaining = iter(losses)

    def run(lr: float) -> LRTrial:
        loss = next(remaining)
        return LRTrial(lr, "diverged" if loss is None else "completed", 10, loss, 1.0)

    return [LRSearch(lr_grid(0.01, 0.0001)), *continue_search(LRSearch(lr_grid(0.01, 0.0001)), run)][-1]


@pytest.mark.parametrize(
    ("losses", "count", "best"),
    [
        ((2.0, 3.0), 2, 0.01),
        ((None, None, 2.0, 3.0), 4, 0.001),
        ((3.0, 2.0, 2.5), 3, 0.003),
        ((3.0, None, 3.5), 3, 0.01),  # the diverged trial between them is skipped
        ((3.0, 2.5, 2.5, 2.0, 1.0), 5, 0.0001),
        ((None, None, None, None, None), 5, None),
    ],
)
def test_the_search_ends_at_the_first_increase_and_the_lowest_loss_is_best(
    losses: tuple[float | None, ...], count: int, best: float | None
) -> None:
    search = ended(*losses)
    assert len(search.trials) == count
    assert search.finished
    assert (search.best and search.best.lr) == best


def failed(lr: float, loss: float) -> LRTrial:
    return LRTrial(lr, "failed", 10, loss, 1.0, reason="above the unigram baseline")


def test_a_failed_trial_is_never_best_and_ends_a_search_only_after_a_completed_one() -> None:
    first, second = failed(0.01, 2.0), LRTrial(0.003, "completed", 10, 3.0, 1.0)
    assert not LRSearch((0.01, 0.003, 0.001), (first, second)).finished
    found = LRSearch((0.01, 0.003, 0.001, 0.0003), (first, second, failed(0.001, 3.1)))
    assert found.finished
    assert found.best == second
    assert LRSearch((0.01,), (first,)).best is None


def test_trials_of_fine_tuning_are_compared_by_accuracy() -> None:
    trials = [
        LRTrial(lr, "completed", 10, None, 1.0, accuracy=each)
        for lr, each in ((0.01, 0.5), (0.003, 0.7), (0.001, 0.6))
    ]
    assert not LRSearch((0.01, 0.003, 0.001, 0.0003), tuple(trials[:2])).finished
    found = LRSearch((0.01, 0.003, 0.001, 0.0003), tuple(trials))
    assert found.finished
    assert found.best == trials[1]


def test_there_is_no_best_before_the_end() -> None:
    search = LRSearch((0.01, 0.003), (LRTrial(0.01, "completed", 10, 2.0, 1.0),))
    assert not search.finished
    assert search.best is None
    assert search.remaining == (0.003,)


def test_a_search_continues_where_it_was_and_a_stop_ends_it() -> None:
    tried: list[float] = []

    def stop(lr: float) -> None:
        tried.append(lr)

    started = LRSearch((0.01, 0.003, 0.001), (LRTrial(0.01, "diverged", 5, None, 1.0),))
    assert list(continue_search(started, stop)) == []
    assert tried == [0.003]


def quadratic(seed: int, report: Callable[[float], float]) -> Callable[[float], LRTrial]:
    """Noisy gradient descent on a steep and a flat direction; the loss is what `report` makes of the true."""

    def run(lr: float) -> LRTrial:
        draw = np.random.default_rng(seed)
        steepness, place = np.array([150.0, 1.0]), np.array([0.1, 2.1])
        detector = DivergenceDetector(STEPS, initial_loss=CHANCE)
        for step in range(1, STEPS + 1):
            loss = report(float(steepness @ place**2 / 2))
            if not math.isfinite(loss):
                return LRTrial(lr, "non-finite", step, None, 0.0)
            detector.update(step, loss)
            if detector.diverged and detector.high_since is not None:
                return LRTrial(lr, "diverged", detector.high_since, None, 0.0)
            place = place - lr * (steepness * place + 0.1 * draw.standard_normal(2))
        return LRTrial(lr, "completed", STEPS, report(float(steepness @ place**2 / 2)), 0.0)

    return run


@np.errstate(over="ignore", invalid="ignore")
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    ("report", "statuses"),
    [
        (lambda loss: loss if loss < 1e4 else math.inf, {"non-finite"}),
        (lambda loss: loss, {"diverged"}),
        (lambda loss: min(loss, 5.0), {"diverged"}),
    ],
    ids=["overflows", "grows", "ends above chance"],
)
def test_a_toy_that_diverges_ends_at_the_known_trial(
    seed: int, report: Callable[[float], float], statuses: set[str]
) -> None:
    *_, search = continue_search(LRSearch(lr_grid(0.1, 0.0001)), quadratic(seed, report))
    assert [trial.lr for trial in search.trials] == [0.1, 0.03, 0.01, 0.003]
    assert {trial.status for trial in search.trials[:2]} == statuses
    assert [trial.status for trial in search.trials[2:]] == ["completed", "completed"]
    assert search.best is not None
    assert search.best.lr == KNOWN
