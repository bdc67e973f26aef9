"""Inline figures use the colors of the page, their text is escaped, and their numbers are a CSV file."""

import csv
import io
import json
import re
from pathlib import Path

import matplotlib as mpl
import pytest

from isopix.plots import style, svg


@style.figure_style()
def inline(text: str = "", name: str = "a", alt: str = "") -> str:
    figure = style.new_figure()
    figure.add_subplot().plot([1, 2], "o", label=text)
    figure.axes[0].set_title(text, parse_math=False)
    return svg.inline_svg(figure, name=name, alt=alt)


def test_colors_are_those_of_the_page_and_characters_are_kept() -> None:
    drawing = inline("title 学")
    assert "学" in drawing
    assert "var(--ink)" in drawing
    for color in (style.TEXT_COLOR, style.MUTED_COLOR, style.GRID_COLOR):
        assert color.lower() not in drawing.lower()


def test_text_and_descriptions_are_escaped() -> None:
    assert "<script" not in inline("<script>a & b", alt='"><script>')


def test_ids_of_figures_are_unique_and_every_reference_has_a_target() -> None:
    one, other = (set(re.findall(r'\bid="([^"]*)"', inline(name=name))) for name in "ab")
    assert one
    assert not one & other
    assert set(re.findall(r'(?:href="#|url\(#)([^")]*)', inline(name="a"))) <= one


def test_a_record_is_a_table_of_its_values_by_names_and_indices() -> None:
    record = {"layers": [{"layer": 0, "accuracy": 0.25}, {"layer": 1, "accuracy": None}], "data": 'a "b", c'}
    assert list(csv.reader(io.StringIO(svg.numbers_csv(record)))) == [
        ["name", "index", "index", "value"],
        ["layers", "0", "layer", "0"],
        ["layers", "0", "accuracy", "0.25"],
        ["layers", "1", "layer", "1"],
        ["layers", "1", "accuracy", ""],
        ["data", "", "", 'a "b", c'],
    ]


def test_equal_figures_are_equal_files_with_their_numbers(tmp_path: Path) -> None:
    def written(name: str) -> list[bytes]:
        figure = style.new_figure()
        figure.subplots().plot([1, 2])
        style.write_figure(figure, tmp_path / "new" / name, {"loss": [1.5, 0.5]})
        paths = [tmp_path / "new" / f"{name}.{suffix}" for suffix in ("png", "svg", "json")]
        assert json.loads(paths[2].read_text()) == {"loss": [1.5, 0.5]}
        return [path.read_bytes() for path in paths]

    assert written("one.v2") == written("other")
    with pytest.raises(ValueError, match="not JSON compliant"):
        style.write_figure(style.new_figure(), tmp_path / "curve", {"loss": float("nan")})
    assert not list(tmp_path.glob("curve*"))


def test_the_style_applies_inside_a_plotting_function_only() -> None:
    outside = mpl.rcParams["grid.color"]
    inside = style.figure_style()(lambda: mpl.rcParams["grid.color"])
    assert inside() == style.GRID_COLOR != outside == mpl.rcParams["grid.color"]
