"""The numbers of a figure are those that were given to matplotlib."""

import csv
import io

import numpy as np
import pytest

from isopix.plots import curves, style
from isopix.plots.figure_data import DECORATION, figure_csv
from isopix.plots.style import Figure
from tests.unit.reporting.cases import evidence


def _rows(figure: Figure) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(figure_csv(figure))))


def _series(rows: list[dict[str, str]], name: str) -> list[tuple[float, float]]:
    return [(float(row["x"]), float(row["y"])) for row in rows if row["series"] == name]


def test_the_accuracies_of_a_probe_are_in_the_table() -> None:
    rows = _rows(curves.plot_probe_accuracy({"trained": evidence((0.3, 0.5, 0.4), half=0.02)}))
    assert _series(rows, "trained") == [(0, 0.3), (1, 0.5), (2, 0.4)]
    assert _series(rows, "untrained") == [(0, 0.3), (1, 0.2), (2, 0.2)]
    assert _series(rows, "reported") == [(1, 0.5)]
    assert _series(rows, "trained, 95 % interval, lower") == [(0, 0.28), (1, 0.48), (2, 0.38)]
    assert _series(rows, "trained, 95 % interval, upper") == [(0, 0.32), (1, 0.52), (2, 0.42)]
    [level] = {
        y for name in {row["series"] for row in rows} if "raw pixels" in name for _, y in _series(rows, name)
    }
    assert level == 0.4


def test_an_upright_band_has_a_left_and_a_right_border() -> None:
    figure = style.new_figure()
    figure.subplots().fill_betweenx([0, 1, 2], [-1, -2, -3], [1, 2, 3], label="effect")
    rows = _rows(figure)
    assert _series(rows, "effect, left") == [(-1, 0), (-2, 1), (-3, 2)]
    assert _series(rows, "effect, right") == [(1, 0), (2, 1), (3, 2)]


def test_lines_bars_markers_and_error_bars_have_their_names() -> None:
    figure = style.new_figure()
    left, right = figure.subplots(1, 2)
    left.set_title("Loss")
    left.plot([1, 2], [0.5, 0.25], label="validation")
    left.axhline(0.1, label="_chance")
    left.axhline(0, label=DECORATION)
    left.errorbar([3], [4], yerr=[1], label="measured")
    right.bar([0, 1], [5, 6], label="counts")
    right.scatter([7], [8], label="samples")
    rows = _rows(figure)
    assert {row["panel"] for row in rows} == {"Loss", "2"}
    assert {row["series"] for row in rows} == {"validation", "chance", "measured", "counts", "samples"}
    assert _series(rows, "validation") == [(1, 0.5), (2, 0.25)]
    assert {y for _, y in _series(rows, "chance")} == {0.1}
    assert sorted(_series(rows, "measured")) == [(3, 3), (3, 4), (3, 5)]
    assert _series(rows, "counts") == [(0, 5), (1, 6)]
    assert _series(rows, "samples") == [(7, 8)]


def test_an_image_of_numbers_has_a_line_for_each_and_one_of_colors_none() -> None:
    figure = style.new_figure()
    axes = figure.add_subplot()
    values = np.array([[0.125, 2.0, -1.0], [4.0, 5.0, 6.5]])
    axes.imshow(values)
    axes.imshow(np.zeros((2, 2, 3)))
    found = {(int(row["y"]), int(row["x"])): float(row["value"]) for row in _rows(figure)}
    assert found == dict(np.ndenumerate(values))


@pytest.mark.parametrize("title", ['a "b", c', "学\nx"])
def test_titles_are_quoted(title: str) -> None:
    figure = style.new_figure()
    axes = figure.add_subplot(title=title)
    axes.plot([1], [1])
    assert _rows(figure)[0]["panel"] == " ".join(title.split())
