"""Figures of positions, embeddings and biases show the numbers that they are given."""

import numpy as np
import pytest

from isopix.analysis.run import ANALYSES
from isopix.plots import filters, granted, positions
from isopix.plots.analyses import DRAW
from isopix.report.captions import CAPTIONS, TITLES


def test_every_analysis_has_its_figure_title_and_caption() -> None:
    assert list(ANALYSES) == list(DRAW) == list(CAPTIONS) == list(TITLES)


def test_each_map_of_positions_stands_where_its_position_does() -> None:
    values = np.random.default_rng(0).uniform(-1, 1, (2, 3, 4, 6))
    drawn = positions.maps({"maps": values.tolist(), "rows": [0, 3], "cols": [0, 2, 5]})
    mosaic = np.asarray(drawn.axes[0].images[0].get_array().filled(np.nan))
    assert mosaic.shape == (2 * 5 - 1, 3 * 7 - 1)
    assert np.allclose(mosaic[5:9, 14:20], values[1, 2])
    assert np.isnan(mosaic[4]).all()
    assert drawn.axes[0].images[0].get_clim() == (-1, 1)
    assert [text.get_text() for text in drawn.axes[0].get_xticklabels()] == ["0", "2", "5"]
    assert drawn.axes[0].get_yticks()[1] == pytest.approx(6.5)  # the middle of rows 5 to 8


def test_every_component_of_filters_is_a_picture_with_its_share() -> None:
    patches = np.random.default_rng(0).random((9, 4, 4, 3))
    shares = [0.3, 0.2, *[0.05] * 7]
    drawn = filters.draw({"of": "filters", "components": patches.tolist(), "explained": shares})
    shown = [axes for axes in drawn.axes if axes.images]
    assert len(shown) == 9
    assert np.allclose(np.asarray(shown[4].images[0].get_array()), patches[4])
    assert [axes.texts[0].get_text() for axes in shown[:3]] == ["30 %", "20 %", "5.0 %"]


def test_colours_stand_where_their_components_put_them() -> None:
    along = np.random.default_rng(0).normal(size=(17, 4))
    colours = [[level, level, 255 - level] for level in range(17)]
    table = {"along": along.tolist(), "explained": [0.4, 0.3, 0.2, 0.1]}
    drawn = filters.draw({"of": "values", "tables": [table], "colours": colours})
    dots = drawn.axes[0].collections[0]
    assert np.allclose(dots.get_offsets(), along[:, :2])
    assert np.allclose(dots.get_facecolors()[:, :3] * 255, colours)
    assert np.allclose(drawn.axes[-1].lines[0].get_ydata(), [0.4, 0.7, 0.9, 1])


def test_levels_of_each_channel_have_a_panel() -> None:
    along = np.random.default_rng(0).normal(size=(3, 256, 4))
    tables = [{"along": each.tolist(), "explained": [0.4, 0.3, 0.2, 0.1]} for each in along]
    drawn = filters.draw({"of": "values", "tables": tables})
    assert [axes.get_title(loc="left") for axes in drawn.axes] == ["red", "green", "blue", "explained"]
    assert np.allclose(drawn.axes[1].lines[2].get_ydata(), along[1, :, 2])


def test_biases_are_a_panel_each_beside_their_level() -> None:
    layers = [{"layer": i, "translation": 0.1 * i, "order": 0.5, "reach": 2.0 + i} for i in range(3)]
    drawn = granted.by_layer({"layers": layers, "even_reach": 6.5})
    assert [list(axes.lines[0].get_ydata()) for axes in drawn.axes] == [
        pytest.approx([0, 0.1, 0.2]),
        [0.5] * 3,
        [2, 3, 4],
    ]
    assert drawn.axes[2].lines[1].get_ydata()[0] == 6.5
