"""The figure shows every trained point, better to the right, and the untrained network as a level."""

import numpy as np

from isopix.analysis.representation import Point, correlation
from isopix.plots import representation

LINE = [
    Point(step, loss, share, share - 0.05, share + 0.05)
    for step, loss, share in [
        *((0, 2.83, 0.2), (10, 2.5, 0.3), (20, 2.2, 0.35)),
        *((30, 2.1, 0.33), (40, 1.9, 0.4), (50, 1.8, 0.45)),
    ]
]


def texts(drawn) -> list[str]:
    return [text.get_text() for text in drawn.axes[0].texts]


def test_lower_loss_is_to_the_right() -> None:
    axes = representation.against_loss({"run": LINE}).axes[0]
    left, right = axes.get_xlim()
    assert 2.5 < left < 2.83  # the untrained network's loss would leave no room for the rest
    assert right < 1.8


def test_every_trained_point_is_drawn_with_its_interval() -> None:
    axes = representation.against_loss({"run": LINE}).axes[0]
    drawn = [line.get_xydata() for line in axes.lines if len(line.get_xydata()) == 5]
    assert np.array_equal(drawn, [[(point.loss, point.accuracy) for point in LINE[1:]]])
    bars = axes.collections[0].get_segments()
    assert np.allclose(bars, [[(p.loss, p.low), (p.loss, p.high)] for p in LINE[1:]])


def test_last_accuracy_correlation_and_the_untrained_level_are_named() -> None:
    found = correlation(LINE)
    assert found is not None
    told = representation.told(found)
    assert told.startswith("ρ −0.90 (−")
    assert set(texts(representation.against_loss({"run": LINE}))) == {"run 45.0 %", told, "untrained 20.0 %"}


def test_of_several_runs_each_level_has_its_name() -> None:
    words = texts(representation.against_loss({"a": LINE, "b": LINE}))
    assert {"a, untrained 20.0 %", "b, untrained 20.0 %", "a 45.0 %", "b 45.0 %"} <= set(words)


def test_too_few_points_are_drawn_without_a_correlation() -> None:
    assert texts(representation.against_loss({"run": LINE[1:4]})) == ["run 33.0 %"]
