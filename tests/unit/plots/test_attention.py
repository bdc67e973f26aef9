"""Figures of attention show every number, and only what may be seen."""

import base64
import io
from typing import Any

import numpy as np
import pytest
from PIL import Image

from isopix.plots import attention, style

GRID, CELL = (4, 5), 2


def numbers(causal: bool = False, layers: int = 3, heads: int = 2) -> dict[str, Any]:
    draw = np.random.default_rng(0)
    content = io.BytesIO()
    pixels = draw.integers(0, 256, (GRID[0] * CELL, GRID[1] * CELL, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(content, format="PNG")
    weights = draw.random((layers, heads, *GRID))
    queries = [
        {"position": place, "heads": weights.tolist(), "rollout": weights[0, 0].tolist()}
        for place in ([2, 1], [0, 4])
    ]
    return {
        "grid": GRID,
        "cell": CELL,
        "causal": causal,
        "queries": queries,
        "image": base64.b64encode(content.getvalue()).decode(),
        "even_distances": {"unmasked": 9.0, "as masked": 8.0} if causal else {"everywhere": 9.0},
        "attentions": [str(i) for i in range(1, layers + 1)],
        "layers": [
            {"layer": str(i), "heads": [{"pixels": 1.0 + i + h, "deviation": 0.5} for h in range(heads)]}
            for i in range(1, layers + 1)
        ],
    }


@pytest.mark.parametrize("causal", [False, True])
def test_every_head_is_a_dot_with_its_deviation(causal: bool) -> None:
    axes = attention.distance_by_layer(numbers(causal)).axes[0]
    dots = [y for line in axes.lines if line.get_marker() == "o" for y in line.get_ydata()]
    assert sorted(dots) == [2, 3, 3, 4, 4, 5]
    bars = np.concatenate([each.get_segments() for each in axes.collections])
    assert np.allclose(bars[:, 1, 1] - bars[:, 0, 1], 1.0)
    names = {text.get_text() for text in axes.texts}
    even = {"even, unmasked 9.0", "even, as masked 8.0"} if causal else {"even, everywhere 9.0"}
    assert names == {"mean 4.5", *even}


def test_a_sheet_has_the_image_once_a_position_and_a_map_for_every_head_and_layer() -> None:
    drawn = attention.maps(numbers())
    assert len(drawn.axes) == 2 * (1 + 3 * 2)
    titles = [axes.get_title(loc="left") for axes in drawn.axes if axes.get_title(loc="left")]
    assert titles == ["layer 1", "layer 2", "layer 3"]
    first = np.asarray(drawn.axes[1].images[0].get_array())
    assert np.array_equal(first, numbers()["queries"][0]["heads"][0][0])


def test_of_a_causal_network_what_comes_later_is_grey_and_no_other() -> None:
    shown = attention.maps(numbers(causal=True)).axes[1].images[0].get_array()
    assert np.array_equal(np.ma.getmaskarray(shown).ravel(), np.arange(20) > 2 * 5 + 1)
    assert not np.ma.getmaskarray(attention.maps(numbers()).axes[1].images[0].get_array()).any()


def test_of_many_layers_and_heads_a_sheet_shows_evenly_spaced_ones() -> None:
    drawn = attention.maps(numbers(layers=25, heads=1))
    titles = [axes.get_title(loc="left") for axes in drawn.axes if axes.get_title(loc="left")]
    assert len(titles) == attention.MOST_LAYERS
    assert (titles[0], titles[-1]) == ("layer 1", "layer 25")


def test_a_rollout_lights_the_image_where_it_is_and_nowhere_else() -> None:
    given = numbers()
    flow = np.zeros(GRID)
    flow[1, 3] = 1
    given["queries"] = [{"position": [2, 1], "rollout": flow.tolist()}]
    image, _, lit = (np.asarray(axes.images[0].get_array()) for axes in attention.rollout(given).axes)
    inside = np.zeros((8, 10), dtype=bool)
    inside[2:4, 6:8] = True
    assert np.allclose(lit[inside], image[inside] / 255)
    assert np.allclose(lit[~inside], attention.DIM * image[~inside] / 255)


def test_the_halves_of_axial_blocks_go_by_their_names() -> None:
    names = ["1 rows", "1 columns", "2 rows"]
    given = numbers() | {"attentions": names, "even_distances": {"rows": 4.0, "columns": 3.0}}
    given["layers"] = [layer | {"layer": name} for layer, name in zip(given["layers"], names, strict=True)]
    axes = attention.distance_by_layer(given).axes[0]
    assert [text.get_text() for text in axes.get_xticklabels()] == ["1\nrows", "1\ncolumns", "2\nrows"]
    means = {"mean, rows 4.5", "mean, columns 3.5"}
    assert {text.get_text() for text in axes.texts} == means | {"even, rows 4.0", "even, columns 3.0"}
    rows, columns = (line for line in axes.lines if line.get_color() == style.INK)
    assert (list(rows.get_xdata()), list(rows.get_ydata())) == ([1, 3], [2.5, 4.5])
    assert (list(columns.get_xdata()), list(columns.get_ydata())) == ([2], [3.5])
    titles = [axes.get_title(loc="left") for axes in attention.maps(given).axes[1:4]]
    assert titles == ["layer 1\nrows", "layer 1\ncolumns", "layer 2\nrows"]


def test_the_class_token_frames_the_image_and_marks_no_place() -> None:
    given = numbers()
    given["queries"][0]["position"] = "class"
    for drawn in (attention.maps(given), attention.rollout(given)):
        framed, marked = (drawn.axes[place] for place in (0, len(drawn.axes) // 2))
        assert framed.spines["left"].get_visible()
        assert not framed.lines
        assert marked.lines
        assert not marked.spines["left"].get_visible()


@pytest.mark.parametrize("text", ["no base 64", base64.b64encode(b"no picture").decode()])
def test_what_is_no_picture_is_refused(text: str) -> None:
    with pytest.raises((ValueError, OSError)):
        attention.maps(numbers() | {"image": text})
