"""Figures of inductive biases show the values of every network."""

import numpy as np
from matplotlib.colors import to_rgba

from isopix.analysis.inductive_biases import BiasMeasurements, ReceptiveField, uniform_receptive_field
from isopix.core.types import Grid
from isopix.plots import inductive_biases, study_marks, style
from tests.unit.plots.readable import check_readable

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


def test_a_block_has_its_color_of_all_figures() -> None:
    layers = {name: NETWORKS["conv"].by_layer() for name in ("mixer", "other", "conv")}
    for axes in inductive_biases.compare_inductive_biases(layers).axes:
        conv, mixer, other = (line.get_color() for line in axes.lines[:3])
        assert (mixer, conv) == (study_marks.BLOCK_COLORS["mixer"], study_marks.BLOCK_COLORS["conv"])
        assert other in {*style.COLORS} - {mixer, conv}


def test_receptive_fields_have_a_color_where_something_changes() -> None:
    figure = inductive_biases.plot_receptive_fields({"conv": POINT, "mixer": UNIFORM})
    first, second = (axes.images[-1].get_array() for axes in figure.axes[:2])
    assert first.count() == 1
    assert second.count() == 49
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["below $10^{-6}$"]


def test_offsets_that_were_not_sampled_differ_from_those_without_a_change() -> None:
    samples = np.ones((7, 7), dtype=int)
    samples[0, 1] = samples[6, 5] = 0
    figure = inductive_biases.plot_receptive_fields({"conv": POINT._replace(samples=samples)})
    under, _ = figure.axes[0].images
    drawn = under.cmap(under.norm(under.get_array()))
    gray, white = to_rgba(inductive_biases.UNSAMPLED_COLOR), to_rgba(style.BACKGROUND)
    assert np.argwhere((drawn == gray).all(-1)).tolist() == [[0, 1], [6, 5]]
    assert (drawn == white).all(-1).sum() == 47
    assert [text.get_text() for text in figure.legends[0].get_texts()][1] == "offset not sampled"


def test_blocks_have_the_order_of_all_figures_and_bars_their_standard_deviations() -> None:
    layers = {name: NETWORKS["conv"].by_layer() for name in ("transformer-1", "mixer", "conv")}
    stds = {name: [{**each, "translation_error": 0.25} for each in own] for name, own in layers.items()}
    figure = inductive_biases.compare_inductive_biases(layers, stds=stds)
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert names == ["convolution", "mixer", "transformer, 1 head"]
    bars = figure.axes[0].containers[0].lines[2][0].get_segments()  # type: ignore[attr-defined]
    assert [float(high - low) for (_, low), (_, high) in bars] == [0.5, 0.5]
    fields = dict.fromkeys(layers, POINT)
    titles = [axes.get_title("left") for axes in inductive_biases.plot_receptive_fields(fields).axes[:3]]
    assert titles == ["convolution", "mixer", "transformer,\n1 head"]


def test_text_is_readable_in_print_and_axes_have_labels() -> None:
    layers = {name: each.by_layer() for name, each in NETWORKS.items()}
    check_readable(inductive_biases.compare_inductive_biases(layers, uniform=2.0))
    check_readable(inductive_biases.plot_receptive_fields({"conv": POINT, "mixer": UNIFORM}))
