"""Labels and axes of curves; the correlation of loss and accuracy."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from isopix.plots import curves
from tests.unit.plots.cases import POINTS
from tests.unit.plots.drawn import texts
from tests.unit.reporting.cases import evidence, records


def test_the_right_axis_is_in_bits() -> None:
    figure = curves.plot_loss(records(), 16, unit="pixel")
    low, high = figure.axes[0].get_ylim()
    figure.canvas.draw()
    (bits,) = figure.axes[0].child_axes
    assert bits.get_ylim() == pytest.approx((low / math.log(2), high / math.log(2)))
    assert bits.get_ylabel() == "Loss (bits per pixel)"


def test_the_test_loss_is_at_the_step_of_the_selected_weights() -> None:
    *before, test = records()
    figure = curves.plot_loss([*before, {**test, "step": 60, "last_step": 100}], 17)
    assert np.asarray(figure.axes[0].lines[-1].get_xdata()).tolist() == [60]


def test_levels_that_runs_share_are_labeled_once_and_names_are_no_math() -> None:
    found = evidence(pixels=0.4)
    figure = curves.plot_probe_accuracy({"a $x$ b": found, "two": found})
    assert texts(figure).count("raw pixels 40.0 %") == texts(figure).count("majority class 10.0 %") == 1
    assert {"a $x$ b 50.0 %", "a $x$ b, untrained"} <= set(texts(figure))
    assert not any(text.get_parse_math() for text in figure.axes[0].texts)


def test_fine_tuning_labels_what_is_reported() -> None:
    seen = [{"step": step, "accuracy": value, "split": "validation"} for step, value in ((0, 0.1), (9, 0.2))]
    assert texts(curves.plot_finetuning_accuracy(seen, None)) == ["validation 20.0 %"]
    assert texts(curves.plot_finetuning_accuracy(seen, None, best=seen[0])) == ["validation 10.0 %"]
    [axes] = curves.plot_finetuning_accuracy([{"step": 40, "accuracy": 0.5, "split": "test"}], 0.1).axes
    low, high = axes.get_xlim()
    assert (low, high > 40) == (0, True)


def test_lower_loss_is_to_the_right_and_labels_have_scipys_correlation_of_trained_networks() -> None:
    figure = curves.plot_accuracy_vs_loss({"run": POINTS})
    left, right = figure.axes[0].get_xlim()
    assert 2.5 < left < 2.83  # the untrained network's loss would leave no room for the rest
    assert right < 1.8
    _, losses, accuracies, *_ = zip(*POINTS[1:], strict=True)
    rho = f"{stats.spearmanr(losses, accuracies).statistic:.2f}".replace("-", "−")
    accuracy, untrained, correlation = sorted(texts(figure))
    assert (accuracy, untrained) == ("run 45.0 %", "untrained 20.0 %")
    assert correlation.startswith(f"ρ {rho} (−")
    assert texts(curves.plot_accuracy_vs_loss({"run": POINTS[1:4]})) == ["run 33.0 %"]


@given(st.lists(st.floats(0, 1), max_size=8), st.floats(0.01, 0.2))
def test_labels_are_spread_in_order_and_stay_where_they_have_space(
    positions: list[float], gap: float
) -> None:
    moved = curves.spread_labels(positions, gap)
    ranked = [moved[i] for i in sorted(range(len(positions)), key=positions.__getitem__)]
    assert all(upper - lower >= gap - 1e-9 for lower, upper in itertools.pairwise(ranked))
    assert curves.spread_labels(moved, gap / 2) == pytest.approx(moved)
