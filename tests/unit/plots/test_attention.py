"""Figures of attention have one scale, on which uniform attention is one, and gray out masked positions."""

import math

import numpy as np
import pytest

from isopix.plots import attention
from tests.unit.plots.cases import GRID, distances
from tests.unit.plots.cases import attention as numbers
from tests.unit.plots.drawn import texts


@pytest.mark.parametrize("causal", [False, True])
def test_all_maps_have_one_scale_on_which_uniform_attention_is_one(causal: bool) -> None:
    given = numbers(causal)
    query, peaked = given["queries"][0], np.zeros(GRID)
    query["heads"][0][0] = query["uniform"][0]
    peaked[0, 0] = 1
    query["heads"][1][0] = peaked.tolist()
    figure = attention.plot_attention_maps(given)
    shown = [axes.images[0] for axes in figure.axes if axes.images and axes.images[0].get_array().ndim == 2]
    assert len({(image.norm.vmin, image.norm.vmax) for image in shown}) == 1
    assert np.allclose(shown[0].get_array().compressed(), 1)
    assert shown[1].get_array().max() == pytest.approx(12 if causal else 20)
    darkness = [float(image.norm(image.get_array()).max()) for image in shown]
    assert darkness[0] < 0.5 < darkness[1]
    assert np.array_equal(
        np.ma.getmaskarray(shown[2].get_array()).ravel(), np.arange(20) > (2 * 5 + 1 if causal else 20)
    )


def test_the_entropy_of_each_map_is_shown_as_a_fraction() -> None:
    given = numbers(layers=1, heads=2)
    given["queries"] = given["queries"][:1]
    given["queries"][0]["entropies"] = [[math.log(20), math.log(20) / 4]]
    shown = [axes.get_xlabel() for axes in attention.plot_attention_maps(given).axes]
    assert [text for text in shown if text] == ["1.00", "0.25"]


def test_evenly_spaced_layers_are_shown_of_many() -> None:
    figure = attention.plot_attention_maps(numbers(layers=25, heads=1))
    titles = [title for axes in figure.axes if (title := axes.get_title(loc="left")).startswith("layer")]
    assert (len(titles), titles[0], titles[-1]) == (attention.MAX_LAYERS, "layer 1", "layer 25")


def test_rollout_is_relative_to_that_of_uniform_attention_and_weights_the_image() -> None:
    uniform = np.full(GRID, 1 / 20)
    rollout = uniform.copy()
    rollout[1, :2] *= [4, 0.25]
    query = {"position": [2, 1], "rollout": rollout.tolist(), "uniform": uniform.tolist()}
    given = numbers() | {"queries": [query]}
    source, shown, weighted, _ = attention.plot_attention_rollout(given).axes
    image = shown.images[0]
    assert image.get_array()[1, :3].tolist() == pytest.approx([4, 0.25, 1])
    assert [float(image.norm(ratio)) for ratio in (1 / 4, 1, 4)] == pytest.approx([0, 0.5, 1])
    pixels, dimmed = (np.asarray(axes.images[0].get_array()) for axes in (source, weighted))
    lowest = attention.MIN_BRIGHTNESS
    for column, brightness in enumerate([1, lowest, (1 + lowest) / 2]):
        part = np.s_[2:4, 2 * column : 2 * column + 2]
        assert np.allclose(dimmed[part], brightness * pixels[part] / 255)


def test_row_and_column_attention_of_axial_blocks_are_labeled() -> None:
    given = distances(["1 rows", "1 columns"], [[2.0], [3.0]], {"rows": 6.0, "columns": 7.0})
    expected = {"rows 2.0", "columns 3.0", "uniform, rows 6.0", "uniform, columns 7.0"}
    assert set(texts(attention.plot_attention_distance(given))) == expected


def test_the_class_token_is_shown_as_a_frame() -> None:
    given = numbers()
    given["queries"][0]["position"] = "class"
    framed, *_ = attention.plot_attention_maps(given).axes
    assert framed.spines["left"].get_visible()
    assert not framed.lines
