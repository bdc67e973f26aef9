"""Curves show the numbers that they are given, the controls among them."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure

from isopix.plots import curves
from tests.unit.report.cases import evidence, records


def texts(drawn: Figure) -> list[str]:
    return [text.get_text() for text in drawn.axes[0].texts]


def heights(drawn: Figure) -> list[Any]:
    return [np.asarray(line.get_ydata(), dtype=float) for line in drawn.axes[0].lines]


def test_the_untrained_loss_is_drawn_and_named() -> None:
    drawn = curves.loss(records(), 17)
    assert any((line == math.log(17)).all() for line in heights(drawn))
    assert "untrained: ln 17 = 2.83" in texts(drawn)


def test_no_untrained_loss_is_drawn_where_none_is_known() -> None:
    drawn = curves.loss(records(), None)
    assert not any("untrained" in text for text in texts(drawn))
    assert len(heights(drawn)) == len(heights(curves.loss(records(), 17))) - 1


def test_evaluations_are_drawn_by_the_grade_that_is_named() -> None:
    both = [{**each, "class_nats": 0.25} if each["kind"] == "evaluation" else each for each in records()]
    classes = [{name: each[name] for name in each if name != "loss_nats"} for each in both if "split" in each]
    alone = curves.loss(
        [*classes, *(each for each in both if each["kind"] == "train")], 5, graded="class_nats"
    )
    _, train, _, validation, test = heights(alone)
    assert train.tolist() == [each["loss_nats"] for each in records() if each["kind"] == "train"]
    assert (validation.tolist(), test.tolist()) == ([0.25, 0.25], [0.25])
    assert len(heights(curves.loss(classes, 5))) == 1, "no other grade stands in for it"


def test_the_test_loss_stands_at_the_step_of_the_weights_that_were_chosen() -> None:
    *before, test = records()
    drawn = curves.loss([*before, {**test, "best_step": 60}], 17)
    assert np.asarray(drawn.axes[0].lines[-1].get_xdata()).tolist() == [60]


def test_a_log_without_losses_is_drawn() -> None:
    assert curves.loss([], 512).axes


def test_the_right_axis_is_in_bits() -> None:
    drawn = curves.loss(records(), 16, code="pixel")
    low, high = drawn.axes[0].get_ylim()
    drawn.canvas.draw()
    (bits,) = drawn.axes[0].child_axes
    assert bits.get_ylim() == pytest.approx((low / math.log(2), high / math.log(2)))
    assert bits.get_ylabel() == "bits a pixel"


def test_every_layer_of_network_and_control_is_drawn() -> None:
    found = evidence(trained=(0.3, 0.5, 0.4), untrained=(0.3, 0.2, 0.2)).to_dict()
    drawn = heights(curves.accuracy_by_layer({"trained": found}))
    for accuracies in ((0.3, 0.5, 0.4), (0.3, 0.2, 0.2)):
        assert any(np.array_equal(line, accuracies) for line in drawn)


def test_raw_pixels_and_the_majority_are_named_with_their_numbers() -> None:
    found = evidence(pixels=0.978).to_dict()
    words = texts(curves.accuracy_by_layer({"trained": found}))
    assert {"raw pixels 97.8 %", "one class 10.0 %"} <= set(words)


def test_runs_that_share_a_control_show_it_once() -> None:
    found = evidence(pixels=0.4).to_dict()
    words = texts(curves.accuracy_by_layer({"one": found, "two": found}))
    assert words.count("raw pixels 40.0 %") == 1


def test_a_name_is_not_read_as_mathematics() -> None:
    drawn = curves.accuracy_by_layer({"a $x$ b": evidence().to_dict()})
    drawn.canvas.draw()
    assert not any(text.get_parse_math() for text in drawn.axes[0].texts)


def test_a_running_mean_keeps_constants_and_ends() -> None:
    assert curves.smooth(np.full(200, 3.0)) == pytest.approx(np.full(200, 3.0))
    line = np.linspace(5, 1, 200)
    assert curves.smooth(line) == pytest.approx(line)


@given(st.lists(st.floats(0, 1), max_size=8), st.floats(0.01, 0.2))
def test_labels_are_apart_and_in_order(places: list[float], gap: float) -> None:
    moved = curves.spread(places, gap)
    order = sorted(range(len(places)), key=places.__getitem__)
    ranked = [moved[i] for i in order]
    assert all(upper - lower >= gap - 1e-9 for lower, upper in itertools.pairwise(ranked))


def test_labels_with_room_stay_where_they_are() -> None:
    assert curves.spread([0.9, 0.1, 0.5], 0.1) == [0.9, 0.1, 0.5]
