"""Figures of inductive biases show the values of every network."""

import numpy as np

from isopix.analysis.inductive_biases import BiasMeasurements, ReceptiveField, uniform_receptive_field
from isopix.core.types import Grid
from isopix.plots import inductive_biases

UNIFORM = uniform_receptive_field(Grid(4, 4))
POINT = ReceptiveField(np.pad([[1.0]], 3))
NETWORKS = {
    "conv": BiasMeasurements([0.0, 0.1], [POINT, POINT], [0.0, 0.9]),
    "transformer-1": BiasMeasurements([0.2, 0.5], [POINT, UNIFORM], [0.3, 0.4]),
}


def test_each_panel_has_a_line_per_network() -> None:
    shifted, permuted, changed = inductive_biases.compare_inductive_biases(
        {name: each.by_layer() for name, each in NETWORKS.items()}
    ).axes
    for axes, values in (
        (shifted, [[0.0, 0.1], [0.2, 0.5]]),
        (permuted, [[0.0, 0.9], [0.3, 0.4]]),
        (changed, [[0, 0], [0, UNIFORM.mean_distance]]),
    ):
        assert [list(line.get_ydata()) for line in axes.lines[:2]] == values


def test_reference_lines_have_names() -> None:
    layers = NETWORKS["conv"].by_layer()
    figure = inductive_biases.plot_inductive_biases({"layers": layers, "uniform_receptive_field_mean": 2.0})
    assert [axes.texts[0].get_text() for axes in figure.axes] == ["random pairs", "random pairs", "uniform"]


def test_receptive_fields_are_blank_where_nothing_changes() -> None:
    figure = inductive_biases.plot_receptive_fields({"conv": POINT.fractions, "mixer": UNIFORM.fractions})
    first, second = (axes.images[0].get_array() for axes in figure.axes[:2])
    assert first.count() == 1
    assert second.count() == 49
