"""A forest plot has a panel per unit with its own axis, where every interval, zero and small effects show."""

import pytest
from matplotlib.figure import Figure

from isopix.plots.forest import ForestRow, Mark, plot_forest
from tests.unit.plots.readable import check_readable

PANELS = {
    "Difference of loss (nats per masked sub-pixel)": [
        ForestRow("a  one − other", {"both pools": Mark(0.1, (0.05, 0.15))}, 0.02)
    ],
    "Difference of accuracy (points)": [
        ForestRow(
            "a  one − other", {"mean pool": Mark(40.0, (30.0, 50.0)), "4 × 4 pool": Mark(-3.0, None)}, 20.0
        ),
        ForestRow(
            "j  histogram error(transf.) − histogram error(mixer)",
            {"mean pool": Mark(4.0, (-1.0, 9.0))},
            20.0,
        ),
    ],
}


@pytest.fixture(scope="module")
def figure() -> Figure:
    return plot_forest(PANELS)


def test_each_unit_has_an_axis_that_its_intervals_fill(figure: Figure) -> None:
    assert [axes.get_xlabel() for axes in figure.axes] == list(PANELS)
    for axes, rows in zip(figure.axes, PANELS.values(), strict=True):
        assert [text.get_text() for text in axes.get_yticklabels()] == [row.label for row in rows]
        ends = [end for row in rows for mark in row.marks.values() for end in mark.interval or ()]
        low, high = axes.get_xlim()
        assert low <= min(0, *ends)
        assert max(ends) <= high <= 2 * max(ends)


def test_marks_and_intervals_are_at_their_values(figure: Figure) -> None:
    for axes, rows in zip(figure.axes, PANELS.values(), strict=True):
        marks = [mark for row in rows for mark in row.marks.values()]
        points = [float(line.get_xdata()[0]) for line in axes.lines if len(line.get_xdata()) == 1]
        bars = [tuple(line.get_xdata()) for line in axes.lines[:-1] if len(line.get_xdata()) == 2]
        assert points == [mark.mean for mark in marks]
        assert bars == [mark.interval for mark in marks if mark.interval]


def test_zero_has_a_line_and_effects_too_small_to_matter_are_shaded(figure: Figure) -> None:
    for axes, rows in zip(figure.axes, PANELS.values(), strict=True):
        assert list(axes.lines[-1].get_xdata()) == [0, 0]
        for shade, row in zip(axes.collections, rows, strict=True):
            xs = shade.get_paths()[0].vertices[:, 0]
            assert (xs.min(), xs.max()) == (-row.effect, row.effect)


def test_text_is_readable_in_print_and_axes_have_labels(figure: Figure) -> None:
    check_readable(figure)
    texts = [text.get_text() for text in figure.legends[0].get_texts()]
    assert texts == ["both pools", "mean pool", "4 × 4 pool", "below the stated effect"]
