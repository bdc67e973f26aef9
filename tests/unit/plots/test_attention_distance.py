"""Figures of attention distance show every head, and their axes end where the values end."""

from typing import Any

import numpy as np
import pytest
from matplotlib.colors import to_hex

from isopix.plots import style
from isopix.plots.attention_distance import plot_attention_distance


def numbers(names: list[str], means: list[list[float]], uniform: dict[str, float]) -> dict[str, Any]:
    """The analysis of layers of these names and mean distances, with entropies of a tenth of them."""
    layers = [
        {
            "layer": name,
            "uniform_entropy": 2.0,
            "heads": [
                {
                    "mean": mean,
                    "std": 0.5,
                    "entropy_mean": 0.2 * mean,
                    "entropy_std": 0.1,
                    "relative_entropy": mean / 10,
                }
                for mean in heads
            ],
        }
        for name, heads in zip(names, means, strict=True)
    ]
    return {"layers": layers, "uniform_distances": uniform, "causal": "causal" in uniform}


def dots(axes: Any, color: str = style.COLORS[0]) -> list[float]:
    lines = [
        line for line in axes.lines if line.get_marker() in "os" and to_hex(line.get_color()) == color.lower()
    ]
    return [float(y) for line in lines for y in line.get_ydata()]


@pytest.mark.parametrize("causal", [False, True])
def test_every_head_is_a_dot_with_its_standard_deviation(causal: bool) -> None:
    uniform = {"all positions": 9.0, "causal": 8.0} if causal else {"all positions": 9.0}
    given = numbers(["1", "2", "3"], [[2.0, 3.0], [3.0, 4.0], [4.0, 5.0]], uniform)
    distance, entropy = plot_attention_distance(given).axes
    assert dots(distance) == [2, 3, 3, 4, 4, 5]
    assert dots(entropy) == pytest.approx([0.2, 0.3, 0.3, 0.4, 0.4, 0.5])
    for axes, width in ((distance, 1.0), (entropy, 0.1)):
        bars = np.concatenate([each.get_segments() for each in axes.collections])
        assert np.allclose(bars[:, 1, 1] - bars[:, 0, 1], width)
    assert {text.get_text() for text in distance.texts} == {
        "mean 4.5",
        f"uniform {uniform.get('causal', 9.0)}",
    }
    assert {text.get_text() for text in entropy.texts} == {"mean 0.45", "uniform 1.00"}


def test_axes_end_where_the_values_end() -> None:
    distance, _ = plot_attention_distance(numbers(["1"], [[20.6, 20.8]], {"all positions": 21.0})).axes
    low, high = distance.get_ylim()
    assert 20.0 < low <= 20.1
    assert 21.3 <= high < 21.5


def test_rows_and_columns_of_axial_blocks_differ_in_color_and_place() -> None:
    given = numbers(
        ["1 rows", "1 columns", "2 rows", "2 columns"],
        [[2.0], [3.0], [4.0], [5.0]],
        {"rows": 6.0, "columns": 7.0},
    )
    axes, _ = plot_attention_distance(given).axes
    assert dots(axes) == [2, 4]
    assert dots(axes, style.COLORS[1]) == [3, 5]
    expected = {"rows 4.0", "columns 5.0", "uniform, rows 6.0", "uniform, columns 7.0"}
    assert {text.get_text() for text in axes.texts} == expected
    places = {tuple(line.get_xdata()) for line in axes.lines if line.get_marker() in "os"}
    assert len(places) == 4
    same = plot_attention_distance({**given, "uniform_distances": {"rows": 6.0, "columns": 6.0}}).axes[0]
    assert {text.get_text() for text in same.texts} == {"rows 4.0", "columns 5.0", "uniform 6.0"}
