"""Tables fit the terminal without a broken word; in a pipe they are as wide as their values."""

from io import StringIO
from pathlib import Path

import pytest
from rich.cells import cell_len
from rich.console import Console

from isopix.cli import console
from isopix.display import tables
from isopix.display.tables import TableText, format_table, wrap_words
from tests.unit.cli.extreme_tables import CASES

COLUMNS = ["name", "test accuracy (95 % CI)", "network"]
ROWS = [["a", "9.1% (8.0 to 10.2)", "autoregressive, pool mean"], ["b", "–", ""]]


def test_every_table_of_the_command_line_is_a_case() -> None:
    folder = Path(console.__file__).parent
    using = {path.stem for path in folder.glob("*.py") if "show_table(" in path.read_text()}
    assert using - {"console"} == set(CASES)


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("name", CASES)
def test_tables_of_extreme_values_fit_a_terminal(
    monkeypatch: pytest.MonkeyPatch, name: str, width: int
) -> None:
    shown: list[list[str]] = []

    def recorded(columns: list[str], rows: list[list[str]], given: int | None) -> TableText:
        assert given == width
        table = format_table(columns, rows, given)
        shown.extend(rows + [columns] * bool(table.header))  # blocks leave out titles without a value
        return table

    written = StringIO()
    monkeypatch.setattr(console, "format_table", recorded)
    monkeypatch.setattr(
        console, "console", Console(file=written, width=width, force_terminal=True, color_system=None)
    )
    CASES[name](monkeypatch)
    lines = written.getvalue().splitlines()
    assert [x for x in lines if cell_len(x) > width and not _may_be_long(x)] == []
    assert [line for line in lines if line != line.rstrip()] == []
    assert "…" not in written.getvalue()
    words = {word.rstrip(":") for line in lines for word in line.split()}
    assert {word.rstrip(":") for cells in shown for cell in cells for word in cell.split()} - words == set()


def _may_be_long(line: str) -> bool:
    """Whether a line is a single word, or is to be copied: a command or a path."""
    return len(line.split()) == 1 or "isopix " in line or line.startswith("wrote ")


@pytest.mark.parametrize("name", CASES)
def test_in_a_pipe_each_row_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    rows: list[list[str]] = []

    def recorded(columns: list[str], given: list[list[str]], width: int | None) -> TableText:
        assert width is None
        rows.extend([columns, *given])
        return format_table(columns, given, width)

    monkeypatch.setattr(console, "format_table", recorded)
    CASES[name](monkeypatch)
    lines = capsys.readouterr().out.splitlines()
    assert [row for row in rows if not any(_has(line, row) for line in lines)] == []
    assert [line for line in lines if line != line.rstrip()] == []


def _has(line: str, row: list[str]) -> bool:
    """Whether the line has all cells in their order."""
    start = 0
    return all((start := line.find(cell, start)) >= 0 for cell in row)


def test_numbers_align_right_and_are_never_wrapped() -> None:
    table = format_table(COLUMNS, ROWS, 41)
    assert table == TableText(
        header=[
            "           test accuracy",
            "name           (95 % CI)  network",
        ],
        body=[
            "a     9.1% (8.0 to 10.2)  autoregressive,",
            "                          pool mean",
            "b                      –",
        ],
    )  # fmt: skip


def test_a_table_that_fits_is_not_wrapped() -> None:
    assert format_table(COLUMNS, ROWS, 58) == format_table(COLUMNS, ROWS, None)
    assert len(format_table(COLUMNS, ROWS, 58).body) == 2


def test_a_table_that_is_too_narrow_is_a_block_for_each_row() -> None:
    assert format_table(COLUMNS, ROWS, 30) == TableText(
        header=[],
        body=[
            "name: a",
            "  test accuracy (95 % CI):",
            "    9.1% (8.0 to 10.2)",
            "  network: autoregressive,",
            "    pool mean",
            "name: b",
            "  test accuracy (95 % CI): –",
        ],
    )


def test_wide_characters_count_twice() -> None:
    assert format_table(["class", "n"], [["漢字", "1"], ["abcd", "2"]], 8).body == ["漢字   1", "abcd   2"]


def test_words_are_never_broken() -> None:
    assert wrap_words("  one two three", 9) == ["  one two", "three"]
    assert wrap_words("a " + "b" * 20 + " c", 9) == ["a", "b" * 20, "c"]
    assert wrap_words("", 9) == [""]
    assert tables.NUMBER.match("−3.1 (2 to 4)")
