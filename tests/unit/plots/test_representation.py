"""The figure shows all points, lower loss to the right, and the untrained network as a horizontal line."""

import numpy as np

from isopix.analysis.representation import ProbePoint, loss_accuracy_correlation
from isopix.plots import representation

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
