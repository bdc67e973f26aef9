"""Points are what a log holds at one step; the rank correlation is SciPy's, its interval covers the truth."""

import numpy as np
import pytest
from scipy import stats

from isopix.analysis.representation import Point, correlation, points


def line(losses, accuracies) -> list[Point]:
    pairs = zip(losses, accuracies, strict=True)
    return [Point(step, float(x), float(y), float(y), float(y)) for step, (x, y) in enumerate(pairs, 1)]


@pytest.mark.parametrize("seed", range(10))
def test_it_is_spearmans_as_scipy_has_it(seed: int) -> None:
    draw = np.random.default_rng(seed)
    losses, accuracies = draw.integers(0, 6, (2, 12)) / 4  # with ties
    found = correlation(line(losses, accuracies))
    assert found is not None
    assert found.rho == pytest.approx(stats.spearmanr(losses, accuracies).statistic)


@pytest.mark.parametrize(("count", "truth"), [(8, -0.5), (12, -0.9), (30, 0.0)])
def test_the_interval_holds_the_true_correlation_of_independent_points(count: int, truth: float) -> None:
    draw = np.random.default_rng(0)
    pearson = 2 * np.sin(np.pi * truth / 6)  # of the normal distribution that has this rank correlation
    held = []
    for _ in range(400):
        pairs = draw.multivariate_normal([0, 0], [[1, pearson], [pearson, 1]], count)
        found = correlation(line(*pairs.T))
        assert found is not None
        held.append(found.low <= truth <= found.high)
    assert 0.91 <= np.mean(held) <= 0.99


def test_a_perfect_order_of_few_points_leaves_doubt() -> None:
    found = correlation(line(range(8, 0, -1), range(8)))
    assert found is not None
    assert found.rho == pytest.approx(-1)
    assert -1 < found.low < found.high
    assert -0.95 < found.high < -0.8


def test_what_cannot_be_ranked_has_no_correlation() -> None:
    assert correlation(line(range(4), range(4))) is None
    assert correlation(line(range(9), [0.5] * 9)) is None


def test_the_untrained_network_is_not_counted() -> None:
    losses, accuracies = [3, 1, 4, 1.5, 5], [0.2, 0.3, 0.1, 0.5, 0.4]
    untrained = Point(0, 9.0, 0.0, 0.0, 0.0)
    assert correlation([untrained, *line(losses, accuracies)]) == correlation(line(losses, accuracies))


def test_points_are_the_steps_that_have_both() -> None:
    def loss(step: int, nats: float, split: str = "validation", **probe: float) -> dict[str, object]:
        return {"kind": "evaluation", "step": step, "split": split, "images": 4, "loss_nats": nats, **probe}

    def probe(share: float) -> dict[str, float]:
        return {"probe_accuracy": share, "probe_low": share - 0.1, "probe_high": share + 0.1}

    records = [
        loss(0, 2.8, **probe(0.2)),
        {"kind": "train", "step": 3, "loss_nats": 2.0},
        *(loss(5, 2.5), loss(10, 2.2, **probe(0.4)), loss(10, 9.9, "test")),
        {"kind": "note", "step": 12, "text": "no linear probe at step 12"},
        {"kind": "evaluation", "step": 15, "split": "validation", "class_nats": 1.0, **probe(0.5)},
    ]
    found = points(records)
    assert [(point.step, point.loss, point.accuracy) for point in found] == [(0, 2.8, 0.2), (10, 2.2, 0.4)]
    assert found[1][3:] == pytest.approx((0.3, 0.5))
