"""Curves show their data and the baselines."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure

from isopix.plots import curves
from tests.unit.reporting.cases import evidence, records


def texts(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.axes[0].texts]


def heights(figure: Figure) -> list[Any]:
    return [np.asarray(line.get_ydata(), dtype=float) for line in figure.axes[0].lines]


def test_the_untrained_loss_is_plotted_and_labeled() -> None:
    figure = curves.plot_loss(records(), 17)
    assert any((line == math.log(17)).all() for line in heights(figure))
    assert "untrained: ln 17 = 2.83" in texts(figure)


def test_no_untrained_loss_is_plotted_without_a_vocabulary_size() -> None:
    figure = curves.plot_loss(records(), None)
    assert not any("untrained" in text for text in texts(figure))
    assert len(heights(figure)) == len(heights(curves.plot_loss(records(), 17))) - 1


def test_baselines_are_horizontal_lines_with_their_names() -> None:
    figure = curves.plot_loss(records(), 17, baselines={"unigram": 2.07, "top neighbor": 1.766})
    for nats in (2.07, 1.766):
        assert any((line == nats).all() for line in heights(figure))
    legend = figure.legends[0]
    assert {"unigram 2.07", "top neighbor 1.77"} <= {text.get_text() for text in legend.get_texts()}


def test_losses_are_plotted_by_the_given_key() -> None:
    both = [{**each, "class_nats": 0.25} for each in records()]
    classes = [{name: each[name] for name in each if name != "loss_nats"} for each in both if "split" in each]
    alone = curves.plot_loss(
        [*classes, *(each for each in both if each["kind"] == "train")], 5, loss_key="class_nats"
    )
    _, train, _, validation, test = heights(alone)
    assert set(train.tolist()) == {0.25}
    assert (validation.tolist(), test.tolist()) == ([0.25, 0.25], [0.25])
    assert len(heights(curves.plot_loss(classes, 5))) == 1, "no other key is used instead"


def test_the_test_loss_is_at_the_step_of_the_selected_weights() -> None:
    *before, test = records()
    figure = curves.plot_loss([*before, {**test, "step": 60, "last_step": 100}], 17)
    assert np.asarray(figure.axes[0].lines[-1].get_xdata()).tolist() == [60]


def test_a_log_without_losses_is_plotted() -> None:
    assert curves.plot_loss([], 512).axes


def test_the_right_axis_is_in_bits() -> None:
    figure = curves.plot_loss(records(), 16, unit="pixel")
    low, high = figure.axes[0].get_ylim()
    figure.canvas.draw()
    (bits,) = figure.axes[0].child_axes
    assert bits.get_ylim() == pytest.approx((low / math.log(2), high / math.log(2)))
    assert bits.get_ylabel() == "Loss (bits per pixel)"


def test_every_layer_of_network_and_baseline_is_plotted() -> None:
    found = evidence(trained=(0.3, 0.5, 0.4), untrained=(0.3, 0.2, 0.2))
    figure = heights(curves.plot_probe_accuracy({"trained": found}))
    for accuracies in ((0.3, 0.5, 0.4), (0.3, 0.2, 0.2)):
        assert any(np.array_equal(line, accuracies) for line in figure)


def test_raw_pixels_and_the_majority_class_are_labeled_with_their_accuracy() -> None:
    found = evidence(pixels=0.978)
    labels = texts(curves.plot_probe_accuracy({"trained": found}))
    assert {"raw pixels 97.8 %", "majority class 10.0 %"} <= set(labels)


def test_baselines_shared_by_runs_are_shown_once() -> None:
    found = evidence(pixels=0.4)
    labels = texts(curves.plot_probe_accuracy({"one": found, "two": found}))
    assert labels.count("raw pixels 40.0 %") == 1


def test_names_are_not_parsed_as_math() -> None:
    figure = curves.plot_probe_accuracy({"a $x$ b": evidence()})
    figure.canvas.draw()
    assert not any(text.get_parse_math() for text in figure.axes[0].texts)


def test_a_running_mean_preserves_constants_and_lines() -> None:
    assert curves.running_mean(np.full(200, 3.0)) == pytest.approx(np.full(200, 3.0))
    line = np.linspace(5, 1, 200)
    assert curves.running_mean(line) == pytest.approx(line)


@given(st.lists(st.floats(0, 1), max_size=8), st.floats(0.01, 0.2))
def test_labels_are_spread_in_order(positions: list[float], gap: float) -> None:
    moved = curves.spread_labels(positions, gap)
    order = sorted(range(len(positions)), key=positions.__getitem__)
    ranked = [moved[i] for i in order]
    assert all(upper - lower >= gap - 1e-9 for lower, upper in itertools.pairwise(ranked))


def test_labels_with_space_do_not_move() -> None:
    assert curves.spread_labels([0.9, 0.1, 0.5], 0.1) == [0.9, 0.1, 0.5]
