"""Figures of attention show every value, and gray out masked positions."""

import base64
import io
import math
from typing import Any

import numpy as np
import pytest
import scipy
from matplotlib.figure import Figure
from PIL import Image

from isopix.plots import attention

GRID, PATCH_SIZE = (4, 5), 2


def numbers(causal: bool = False, layers: int = 3, heads: int = 2) -> dict[str, Any]:
    random = np.random.default_rng(0)
    content = io.BytesIO()
    pixels = random.integers(0, 256, (GRID[0] * PATCH_SIZE, GRID[1] * PATCH_SIZE, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(content, format="PNG")
    queries = []
    for row, col in ([2, 1], [0, 4]):
        allowed = np.arange(20).reshape(GRID) <= (row * GRID[1] + col if causal else 20)
        weights = random.random((layers, heads, *GRID)) * allowed
        weights /= weights.sum((2, 3), keepdims=True)
        uniform = allowed / allowed.sum()
        queries.append(
            {
                "position": [row, col],
                "heads": weights.tolist(),
                "entropies": scipy.special.entr(weights).sum((2, 3)).tolist(),
                "uniform": [uniform.tolist()] * layers,
            }
        )
    return {
        "grid": GRID,
        "patch_size": PATCH_SIZE,
        "causal": causal,
        "queries": queries,
        "image": base64.b64encode(content.getvalue()).decode(),
        "layer_names": [str(i) for i in range(1, layers + 1)],
    }


def layer_titles(figure: Figure) -> list[str]:
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    return [title for title in titles if title.startswith("layer")]


def test_maps_show_the_image_once_per_position_and_all_heads_and_layers() -> None:
    figure = attention.plot_attention_maps(numbers())
    assert len(figure.axes) == 2 * (1 + 3 * 2) + 1  # and the color bar
    assert layer_titles(figure) == ["layer 1", "layer 2", "layer 3"]
    first = np.asarray(figure.axes[1].images[0].get_array())
    assert np.allclose(first, 20 * np.array(numbers()["queries"][0]["heads"][0][0]))


@pytest.mark.parametrize("causal", [False, True])
def test_all_maps_have_one_scale_on_which_uniform_attention_is_one(causal: bool) -> None:
    given = numbers(causal)
    query = given["queries"][0]
    query["heads"][0][0] = query["uniform"][0]
    peaked = np.zeros(GRID)
    peaked[0, 0] = 1
    query["heads"][1][0] = peaked.tolist()
    figure = attention.plot_attention_maps(given)
    shown = [axes.images[0] for axes in figure.axes if axes.images and axes.images[0].get_array().ndim == 2]
    assert len({(image.norm.vmin, image.norm.vmax) for image in shown}) == 1
    assert np.allclose(shown[0].get_array().compressed(), 1)
    allowed = 12 if causal else 20
    assert shown[1].get_array().max() == pytest.approx(allowed)
    darkness = [float(image.norm(image.get_array()).max()) for image in shown]
    assert darkness[0] < 0.5 < darkness[1]
    [bar] = [axes for axes in figure.axes if axes.get_title(loc="left") == "× uniform"]
    assert [text.get_text() for text in bar.get_yticklabels()][:3] == ["0", "1", "2"]


def test_the_entropy_of_each_map_is_shown_as_a_fraction() -> None:
    given = numbers(layers=1, heads=2)
    given["queries"] = given["queries"][:1]
    given["queries"][0]["entropies"] = [[math.log(20), math.log(20) / 4]]
    shown = [axes.get_xlabel() for axes in attention.plot_attention_maps(given).axes]
    assert [text for text in shown if text] == ["1.00", "0.25"]


def test_only_later_positions_of_a_causal_network_are_gray() -> None:
    shown = attention.plot_attention_maps(numbers(causal=True)).axes[1].images[0].get_array()
    assert np.array_equal(np.ma.getmaskarray(shown).ravel(), np.arange(20) > 2 * 5 + 1)
    assert not np.ma.getmaskarray(
        attention.plot_attention_maps(numbers()).axes[1].images[0].get_array()
    ).any()


def test_evenly_spaced_layers_are_shown_of_many() -> None:
    figure = attention.plot_attention_maps(numbers(layers=25, heads=1))
    titles = layer_titles(figure)
    assert len(titles) == attention.MAX_LAYERS
    assert (titles[0], titles[-1]) == ("layer 1", "layer 25")


def rollout_numbers(values: list[float]) -> dict[str, Any]:
    """Numbers whose rollout at the first positions of row 1 is so many times that of uniform attention."""
    uniform = np.full(GRID, 1 / 20)
    rollout = uniform.copy()
    rollout[1, : len(values)] *= values
    queries = [{"position": [2, 1], "rollout": rollout.tolist(), "uniform": uniform.tolist()}]
    return numbers() | {"queries": queries}


def test_rollout_is_shown_relative_to_that_of_uniform_attention() -> None:
    _, shown, _, _ = attention.plot_attention_rollout(rollout_numbers([4, 0.25])).axes
    image = shown.images[0]
    assert image.get_array()[1, :3].tolist() == pytest.approx([4, 0.25, 1])
    assert [float(image.norm(ratio)) for ratio in (1 / 4, 1, 4)] == pytest.approx([0, 0.5, 1])


def test_rollout_weights_the_image() -> None:
    image, _, weighted, _ = attention.plot_attention_rollout(rollout_numbers([4, 0.25])).axes
    pixels, dimmed = (np.asarray(axes.images[0].get_array()) for axes in (image, weighted))
    lowest = attention.MIN_BRIGHTNESS
    for column, brightness in enumerate([1, lowest, (1 + lowest) / 2]):
        part = np.s_[2:4, 2 * column : 2 * column + 2]
        assert np.allclose(dimmed[part], brightness * pixels[part] / 255)


def test_row_and_column_attention_of_axial_blocks_are_labeled() -> None:
    figure = attention.plot_attention_maps(numbers() | {"layer_names": ["1 rows", "1 columns", "2 rows"]})
    assert layer_titles(figure) == ["layer 1\nrows", "layer 1\ncolumns", "layer 2\nrows"]


def test_the_class_token_is_shown_as_a_frame() -> None:
    given = numbers()
    given["queries"][0]["position"] = "class"
    figure = attention.plot_attention_maps(given)
    framed, marked = figure.axes[0], figure.axes[1 + 3 * 2]
    assert framed.spines["left"].get_visible()
    assert not framed.lines
    assert marked.lines
    assert not marked.spines["left"].get_visible()


@pytest.mark.parametrize("text", ["not base64", base64.b64encode(b"not an image").decode()])
def test_invalid_images_are_rejected(text: str) -> None:
    with pytest.raises((ValueError, OSError)):
        attention.plot_attention_maps(numbers() | {"image": text})
