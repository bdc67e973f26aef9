"""The pictures of biases show every network's numbers."""

import numpy as np
import pytest

from isopix.analysis.inductive_biases import Biases, Reach, even_reach
from isopix.core.types import Grid
from isopix.plots import inductive_biases

EVEN = even_reach(Grid(4, 4))
NOWHERE = Reach(np.pad([[1.0]], 3))
NETWORKS = {
    "conv": Biases([0.0, 0.1], [NOWHERE, NOWHERE], [0.0, 0.9]),
    "transformer-1": Biases([0.2, 0.5], [NOWHERE, EVEN], [0.3, 0.4]),
}


def test_each_panel_has_a_line_a_network() -> None:
    shifted, permuted, changed = inductive_biases.by_layer(NETWORKS).axes
    for axes, values in (
        (shifted, [[0.0, 0.1], [0.2, 0.5]]),
        (permuted, [[0.0, 0.9], [0.3, 0.4]]),
        (changed, [[0, 0], [0, EVEN.mean]]),
    ):
        assert [list(line.get_ydata()) for line in axes.lines[:2]] == values


def test_a_reach_is_drawn_as_what_lies_within_each_distance() -> None:
    axes = inductive_biases.reach({"conv": NOWHERE, "mixer": EVEN}, EVEN).axes[0]
    names = [text.get_text() for text in axes.get_legend().get_texts()]
    assert names == ["convolution: 95 % within 0", "mixer: 95 % within 3", "everywhere alike"]
    assert axes.lines[1].get_ydata() == pytest.approx(EVEN.profile.cumsum())


def test_a_map_is_blank_where_nothing_shows() -> None:
    drawn = inductive_biases.maps({"conv": NOWHERE, "mixer": EVEN})
    first, second = (axes.images[0].get_array() for axes in drawn.axes[:2])
    assert first.count() == 1
    assert second.count() == 49
