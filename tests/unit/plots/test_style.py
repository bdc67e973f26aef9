"""The look of the pictures, and how they are kept."""

import json
from pathlib import Path

import matplotlib as mpl
import pytest

from isopix.plots import style


def test_a_picture_is_kept_with_its_numbers(tmp_path: Path) -> None:
    written = style.save(style.figure(), tmp_path / "new" / "curve.v2", {"loss": [1.5, 0.5]})
    assert [path.name for path in written] == ["curve.v2.png", "curve.v2.svg", "curve.v2.json"]
    assert json.loads(written[2].read_text()) == {"loss": [1.5, 0.5]}


def test_equal_pictures_are_equal_files(tmp_path: Path) -> None:
    def draw(name: str) -> list[bytes]:
        drawn = style.figure()
        drawn.subplots().plot([1, 2])
        return [path.read_bytes() for path in style.save(drawn, tmp_path / name, {})]

    assert draw("one") == draw("other")


def test_the_style_holds_inside_a_drawing_function_and_nowhere_else() -> None:
    @style.paper()
    def inside() -> str:
        return str(mpl.rcParams["grid.color"])

    outside = mpl.rcParams["grid.color"]
    assert inside() == style.FAINT != outside
    assert mpl.rcParams["grid.color"] == outside


def test_nothing_is_written_if_a_number_is_none(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        style.save(style.figure(), tmp_path / "curve", {"loss": float("nan")})
    assert not list(tmp_path.iterdir())
