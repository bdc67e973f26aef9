"""The figure shows all points, lower loss to the right, and the untrained network as a horizontal line.

Points join loss and probe of a step; the correlation equals SciPy's, and its interval covers the truth.
"""

import numpy as np
import pytest
from scipy import stats

from isopix.plots import representation
from isopix.plots.representation import ProbePoint, loss_accuracy_correlation, probe_points

LINE = [
    ProbePoint(step, loss, accuracy, accuracy - 0.05, accuracy + 0.05)
    for step, loss, accuracy in [
        *((0, 2.83, 0.2), (10, 2.5, 0.3), (20, 2.2, 0.35)),
        *((30, 2.1, 0.33), (40, 1.9, 0.4), (50, 1.8, 0.45)),
    ]
]


def texts(figure) -> list[str]:
    return [text.get_text() for text in figure.axes[0].texts]


def test_lower_loss_is_to_the_right() -> None:
    axes = representation.plot_accuracy_vs_loss({"run": LINE}).axes[0]
    left, right = axes.get_xlim()
    assert 2.5 < left < 2.83  # the untrained network's loss would leave no room for the rest
    assert right < 1.8


def test_every_point_is_plotted_with_its_interval() -> None:
    axes = representation.plot_accuracy_vs_loss({"run": LINE}).axes[0]
    figure = [line.get_xydata() for line in axes.lines if len(line.get_xydata()) == 5]
    assert np.array_equal(figure, [[(point.loss, point.accuracy) for point in LINE[1:]]])
    bars = axes.collections[0].get_segments()
    assert np.allclose(bars, [[(p.loss, p.low), (p.loss, p.high)] for p in LINE[1:]])


def test_last_accuracy_correlation_and_untrained_accuracy_are_labeled() -> None:
    found = loss_accuracy_correlation(LINE)
    assert found is not None
    formatted = representation.format_correlation(found)
    assert formatted.startswith("ρ −0.90 (−")
    assert set(texts(representation.plot_accuracy_vs_loss({"run": LINE}))) == {
        "run 45.0 %",
        formatted,
        "untrained 20.0 %",
    }


def test_labels_of_several_runs_have_their_names() -> None:
    labels = texts(representation.plot_accuracy_vs_loss({"a": LINE, "b": LINE}))
    assert {"a, untrained 20.0 %", "b, untrained 20.0 %", "a 45.0 %", "b 45.0 %"} <= set(labels)


def test_few_points_are_plotted_without_a_correlation() -> None:
    assert texts(representation.plot_accuracy_vs_loss({"run": LINE[1:4]})) == ["run 33.0 %"]


def line(losses, accuracies) -> list[ProbePoint]:
    pairs = zip(losses, accuracies, strict=True)
    return [ProbePoint(step, float(x), float(y), float(y), float(y)) for step, (x, y) in enumerate(pairs, 1)]


@pytest.mark.parametrize("seed", range(10))
def test_the_correlation_equals_scipys(seed: int) -> None:
    draw = np.random.default_rng(seed)
    losses, accuracies = draw.integers(0, 6, (2, 12)) / 4  # with ties
    found = loss_accuracy_correlation(line(losses, accuracies))
    assert found is not None
    assert found.rho == pytest.approx(stats.spearmanr(losses, accuracies).statistic)


@pytest.mark.parametrize(("count", "truth"), [(8, -0.5), (12, -0.9), (30, 0.0)])
def test_the_interval_covers_the_true_correlation_of_independent_points(count: int, truth: float) -> None:
    draw = np.random.default_rng(0)
    pearson = 2 * np.sin(np.pi * truth / 6)  # of the normal distribution with this rank correlation
    covered = []
    for _ in range(400):
        pairs = draw.multivariate_normal([0, 0], [[1, pearson], [pearson, 1]], count)
        found = loss_accuracy_correlation(line(*pairs.T))
        assert found is not None
        covered.append(found.low <= truth <= found.high)
    assert 0.91 <= np.mean(covered) <= 0.99


def test_the_interval_of_few_perfectly_ordered_points_is_not_empty() -> None:
    found = loss_accuracy_correlation(line(range(8, 0, -1), range(8)))
    assert found is not None
    assert found.rho == pytest.approx(-1)
    assert -1 < found.low < found.high
    assert -0.95 < found.high < -0.8


def test_few_or_constant_points_have_no_correlation() -> None:
    assert loss_accuracy_correlation(line(range(4), range(4))) is None
    assert loss_accuracy_correlation(line(range(9), [0.5] * 9)) is None


def test_step_zero_is_left_out() -> None:
    losses, accuracies = [3, 1, 4, 1.5, 5], [0.2, 0.3, 0.1, 0.5, 0.4]
    untrained = ProbePoint(0, 9.0, 0.0, 0.0, 0.0)
    assert loss_accuracy_correlation([untrained, *line(losses, accuracies)]) == loss_accuracy_correlation(
        line(losses, accuracies)
    )


def test_points_are_the_steps_with_both_loss_and_probe() -> None:
    def loss(step: int, nats: float, split: str = "validation", **probe: float) -> dict[str, object]:
        return {"kind": "evaluation", "step": step, "split": split, "images": 4, "loss_nats": nats, **probe}

    def probe(accuracy: float) -> dict[str, float]:
        return {
            "probe_accuracy": accuracy,
            "probe_low": accuracy - 0.1,
            "probe_high": accuracy + 0.1,
        }

    records = [
        loss(0, 2.8, **probe(0.2)),
        {"kind": "train", "step": 3, "loss_nats": 2.0},
        *(loss(5, 2.5), loss(10, 2.2, **probe(0.4)), loss(10, 9.9, "test")),
        {"kind": "note", "step": 12, "text": "no linear probe at step 12"},
        {"kind": "evaluation", "step": 15, "split": "validation", "class_nats": 1.0, **probe(0.5)},
    ]
    found = probe_points(records)
    assert [(point.step, point.loss, point.accuracy) for point in found] == [(0, 2.8, 0.2), (10, 2.2, 0.4)]
    assert found[1][3:] == pytest.approx((0.3, 0.5))
