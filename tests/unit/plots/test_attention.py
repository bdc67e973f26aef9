"""Figures of attention show every value, and gray out masked positions."""

import base64
import io
from typing import Any

import numpy as np
import pytest
from PIL import Image

from isopix.plots import attention, style

GRID, PATCH_SIZE = (4, 5), 2


def numbers(causal: bool = False, layers: int = 3, heads: int = 2) -> dict[str, Any]:
    random = np.random.default_rng(0)
    content = io.BytesIO()
    pixels = random.integers(0, 256, (GRID[0] * PATCH_SIZE, GRID[1] * PATCH_SIZE, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(content, format="PNG")
    weights = random.random((layers, heads, *GRID))
    queries = [
        {"position": place, "heads": weights.tolist(), "rollout": weights[0, 0].tolist()}
        for place in ([2, 1], [0, 4])
    ]
    return {
        "grid": GRID,
        "patch_size": PATCH_SIZE,
        "causal": causal,
        "queries": queries,
        "image": base64.b64encode(content.getvalue()).decode(),
        "uniform_distances": {"all positions": 9.0, "causal": 8.0} if causal else {"all positions": 9.0},
        "layer_names": [str(i) for i in range(1, layers + 1)],
        "layers": [
            {"layer": str(i), "heads": [{"mean": 1.0 + i + h, "std": 0.5} for h in range(heads)]}
            for i in range(1, layers + 1)
        ],
    }


@pytest.mark.parametrize("causal", [False, True])
def test_every_head_is_a_dot_with_its_standard_deviation(causal: bool) -> None:
    axes = attention.plot_attention_distance(numbers(causal)).axes[0]
    dots = [y for line in axes.lines if line.get_marker() == "o" for y in line.get_ydata()]
    assert sorted(dots) == [2, 3, 3, 4, 4, 5]
    bars = np.concatenate([each.get_segments() for each in axes.collections])
    assert np.allclose(bars[:, 1, 1] - bars[:, 0, 1], 1.0)
    names = {text.get_text() for text in axes.texts}
    uniform = {"uniform 9.0", "uniform, causal 8.0"} if causal else {"uniform 9.0"}
    assert names == {"mean 4.5", *uniform}


def test_maps_show_the_image_once_per_position_and_all_heads_and_layers() -> None:
    figure = attention.plot_attention_maps(numbers())
    assert len(figure.axes) == 2 * (1 + 3 * 2)
    titles = [axes.get_title(loc="left") for axes in figure.axes if axes.get_title(loc="left")]
    assert titles == ["layer 1", "layer 2", "layer 3"]
    first = np.asarray(figure.axes[1].images[0].get_array())
    assert np.array_equal(first, numbers()["queries"][0]["heads"][0][0])


def test_only_later_positions_of_a_causal_network_are_gray() -> None:
    shown = attention.plot_attention_maps(numbers(causal=True)).axes[1].images[0].get_array()
    assert np.array_equal(np.ma.getmaskarray(shown).ravel(), np.arange(20) > 2 * 5 + 1)
    assert not np.ma.getmaskarray(
        attention.plot_attention_maps(numbers()).axes[1].images[0].get_array()
    ).any()


def test_evenly_spaced_layers_are_shown_of_many() -> None:
    figure = attention.plot_attention_maps(numbers(layers=25, heads=1))
    titles = [axes.get_title(loc="left") for axes in figure.axes if axes.get_title(loc="left")]
    assert len(titles) == attention.MAX_LAYERS
    assert (titles[0], titles[-1]) == ("layer 1", "layer 25")


def test_rollout_weights_the_image() -> None:
    given = numbers()
    rollout = np.zeros(GRID)
    rollout[1, 3] = 1
    given["queries"] = [{"position": [2, 1], "rollout": rollout.tolist()}]
    image, _, weighted = (
        np.asarray(axes.images[0].get_array()) for axes in attention.plot_attention_rollout(given).axes
    )
    inside = np.zeros((8, 10), dtype=bool)
    inside[2:4, 6:8] = True
    assert np.allclose(weighted[inside], image[inside] / 255)
    assert np.allclose(weighted[~inside], attention.MIN_BRIGHTNESS * image[~inside] / 255)


def test_row_and_column_attention_of_axial_blocks_are_labeled() -> None:
    names = ["1 rows", "1 columns", "2 rows"]
    given = numbers() | {"layer_names": names, "uniform_distances": {"rows": 4.0, "columns": 3.0}}
    given["layers"] = [layer | {"layer": name} for layer, name in zip(given["layers"], names, strict=True)]
    axes = attention.plot_attention_distance(given).axes[0]
    assert [text.get_text() for text in axes.get_xticklabels()] == ["1\nrows", "1\ncolumns", "2\nrows"]
    means = {"mean, rows 4.5", "mean, columns 3.5"}
    assert {text.get_text() for text in axes.texts} == means | {"uniform, rows 4.0", "uniform, columns 3.0"}
    rows, columns = (line for line in axes.lines if line.get_color() == style.TEXT_COLOR)
    assert (list(rows.get_xdata()), list(rows.get_ydata())) == ([1, 3], [2.5, 4.5])
    assert (list(columns.get_xdata()), list(columns.get_ydata())) == ([2], [3.5])
    titles = [axes.get_title(loc="left") for axes in attention.plot_attention_maps(given).axes[1:4]]
    assert titles == ["layer 1\nrows", "layer 1\ncolumns", "layer 2\nrows"]


def test_the_class_token_is_shown_as_a_frame() -> None:
    given = numbers()
    given["queries"][0]["position"] = "class"
    for figure in (attention.plot_attention_maps(given), attention.plot_attention_rollout(given)):
        framed, marked = (figure.axes[place] for place in (0, len(figure.axes) // 2))
        assert framed.spines["left"].get_visible()
        assert not framed.lines
        assert marked.lines
        assert not marked.spines["left"].get_visible()


@pytest.mark.parametrize("text", ["not base64", base64.b64encode(b"not an image").decode()])
def test_invalid_images_are_rejected(text: str) -> None:
    with pytest.raises((ValueError, OSError)):
        attention.plot_attention_maps(numbers() | {"image": text})
