"""The figure style, and the files of a figure."""

import json
from pathlib import Path

import matplotlib as mpl
import pytest

from isopix.plots import style


def test_a_figure_is_saved_with_its_numbers(tmp_path: Path) -> None:
    written = style.write_figure(style.new_figure(), tmp_path / "new" / "curve.v2", {"loss": [1.5, 0.5]})
    assert [path.name for path in written] == ["curve.v2.png", "curve.v2.svg", "curve.v2.json"]
    assert json.loads(written[2].read_text()) == {"loss": [1.5, 0.5]}


def test_equal_figures_are_equal_files(tmp_path: Path) -> None:
    def draw(name: str) -> list[bytes]:
        figure = style.new_figure()
        figure.subplots().plot([1, 2])
        return [path.read_bytes() for path in style.write_figure(figure, tmp_path / name, {})]

    assert draw("one") == draw("other")


def test_the_style_applies_inside_a_plotting_function_only() -> None:
    @style.figure_style()
    def inside() -> str:
        return str(mpl.rcParams["grid.color"])

    outside = mpl.rcParams["grid.color"]
    assert inside() == style.GRID_COLOR != outside
    assert mpl.rcParams["grid.color"] == outside


def test_nothing_is_written_for_nan(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        style.write_figure(style.new_figure(), tmp_path / "curve", {"loss": float("nan")})
    assert not list(tmp_path.iterdir())


def test_numbers_have_a_true_minus_sign_and_no_negative_zero() -> None:
    assert [style.decimal(value, 2) for value in (-0.254, 0.254, -0.001)] == ["−0.25", "0.25", "0.00"]


def test_text_of_print_has_five_points_where_the_page_is_8_cm_wide() -> None:
    assert style.PRINT_SIZE * 8 / (2.54 * style.PAGE_WIDTH) >= 5
