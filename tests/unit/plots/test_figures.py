"""Marks have one meaning, attention one scale; labels, print, inline SVG and its numbers."""

import itertools
import json
import math
import re
from pathlib import Path
from xml.etree import ElementTree

import matplotlib as mpl
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.colors import to_hex

from isopix.plots import attention, curves, study, style
from tests.unit.plots import cases
from tests.unit.plots.cases import GRID, check_readable, texts
from tests.unit.plots.cases import attention as numbers
from tests.unit.reporting.cases import evidence, records

RESULTS = cases.results()


def test_no_color_marker_or_dash_has_two_meanings() -> None:
    colors = [*style.BLOCK_COLORS.values(), *style.ENCODING_COLORS.values(), style.MUTED_COLOR]
    for marks in (map(to_hex, colors), style.MARKERS.values(), map(str, style.DASHES.values())):
        found = list(marks)
        assert len(set(found)) == len(found)


@pytest.mark.parametrize("seeds", [1, 2])
def test_text_is_readable_in_print(seeds: int) -> None:
    given = cases.results(seeds)
    check_readable(study.plot_study_loss([given]))
    check_readable(study.plot_study_depth(given))
    check_readable(study.plot_study_layers(given, cases.BLOCKS, 6))


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


def test_the_right_axis_is_in_bits() -> None:
    figure = curves.plot_loss(records(), 16, unit="pixel")
    low, high = figure.axes[0].get_ylim()
    figure.canvas.draw()
    (bits,) = figure.axes[0].child_axes
    assert bits.get_ylim() == pytest.approx((low / math.log(2), high / math.log(2)))
    assert bits.get_ylabel() == "Loss (bits per pixel)"


def test_levels_that_runs_share_are_labeled_once_and_names_are_no_math() -> None:
    found = evidence(pixels=0.4)
    figure = curves.plot_probe_accuracy({"a $x$ b": found, "two": found})
    assert texts(figure).count("raw pixels 40.0%") == texts(figure).count("majority class 10.0%") == 1
    assert {"a $x$ b 60.0%", "a $x$ b, untrained"} <= set(texts(figure))
    assert not any(text.get_parse_math() for text in figure.axes[0].texts)


@given(st.lists(st.floats(0, 1), max_size=8), st.floats(0.01, 0.2))
def test_labels_are_spread_in_order_and_stay_where_they_have_space(
    positions: list[float], gap: float
) -> None:
    moved = curves.spread_labels(positions, gap)
    ranked = [moved[i] for i in sorted(range(len(positions)), key=positions.__getitem__)]
    assert all(upper - lower >= gap - 1e-9 for lower, upper in itertools.pairwise(ranked))
    assert curves.spread_labels(moved, gap / 2) == pytest.approx(moved)


@style.figure_style()
def inline(text: str = "", name: str = "a", alt: str = "") -> str:
    figure = style.new_figure()
    figure.add_subplot().plot([1, 2], "o", label=text)
    figure.axes[0].set_title(text, parse_math=False)
    return style.inline_svg(figure, name=name, alt=alt)


def test_colors_are_those_of_the_page_and_characters_are_kept() -> None:
    drawing = inline("title 学")
    assert "学" in drawing
    assert "var(--ink)" in drawing
    for color in (style.TEXT_COLOR, style.MUTED_COLOR, style.GRID_COLOR):
        assert color.lower() not in drawing.lower()


def test_text_and_descriptions_are_escaped() -> None:
    assert "<script" not in inline("<script>a & b", alt='"><script>')
    given = "\"quoted\" 'twice' & <more>"
    svg = ElementTree.fromstring(inline(alt=given).replace("xlink:", ""))
    assert svg.get("aria-label") == given


def test_ids_of_figures_are_unique_and_every_reference_has_a_target() -> None:
    one, other = (set(re.findall(r'\bid="([^"]*)"', inline(name=name))) for name in "ab")
    assert one
    assert not one & other
    assert set(re.findall(r'(?:href="#|url\(#)([^")]*)', inline(name="a"))) <= one


def test_equal_figures_are_equal_files_with_their_numbers(tmp_path: Path) -> None:
    def written(name: str) -> list[bytes]:
        figure = style.new_figure()
        style.figure_style()(figure.subplots)().plot([1, 2])
        style.write_figure(figure, tmp_path / "new" / name, {"loss": [1.5, 0.5]})
        paths = [tmp_path / "new" / f"{name}.{suffix}" for suffix in ("png", "svg", "json")]
        assert json.loads(paths[2].read_text()) == {"loss": [1.5, 0.5]}
        return [path.read_bytes() for path in paths]

    with mpl.rc_context({"text.usetex": True}):  # as by a file matplotlibrc of the working directory
        other = written("other")
    assert written("one.v2") == other
    with pytest.raises(ValueError, match="not JSON compliant"):
        style.write_figure(style.new_figure(), tmp_path / "curve", {"loss": float("nan")})
    assert not list(tmp_path.glob("curve*"))
