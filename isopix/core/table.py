"""Table: rows of values as text for a terminal, HTML for a notebook or page, Markdown for a model card."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from rich.box import ASCII2, SIMPLE_HEAD
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from isopix.core.text import printable

NUMBER = re.compile(r"[<$±+−-]? ?\d|–$")  # how numbers begin, and the sign of one that is missing
WIDE = 10_000  # characters: no row is wrapped


@dataclass(frozen=True)
class Table:
    """A table with a caption. Columns after the first are aligned right if all their values are numbers."""

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[object]]

    def text(self, width: int | None = None, *, ascii_only: bool = False) -> str:
        """Return lines of text of at most `width` characters, in which long values are wrapped."""
        table = RichTable(box=ASCII2 if ascii_only else SIMPLE_HEAD, show_edge=False, pad_edge=False)
        for index, column in enumerate(self.columns):
            table.add_column(Text(printable(column)), justify="right" if self.is_numeric(index) else "left")
        for row in self._cells:
            table.add_row(*map(Text, row))
        console = Console(width=width or WIDE, color_system=None, legacy_windows=False)
        with console.capture() as captured:
            console.print(table)
        lines = [line.rstrip() for line in captured.get().splitlines()]
        return "\n".join([printable(self.caption), *lines])

    def html(self) -> str:
        head = "".join(f"<th>{escape(each)}</th>" for each in self.columns)
        rows = ("".join(f"<td>{escape(each)}</td>" for each in row) for row in self._cells)
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        caption = escape(printable(self.caption))
        return (
            f"<table><caption>{caption}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        )

    def markdown(self) -> str:
        lines = [self.columns, ["---"] * len(self.columns), *self._cells]
        rows = ("| " + " | ".join(escape(each).replace("|", "\\|") for each in line) + " |" for line in lines)
        return "\n".join([f"{escape(printable(self.caption))}\n", *rows])

    @property
    def _cells(self) -> list[list[str]]:
        return [[printable(str(value)) for value in row] for row in self.rows]

    def is_numeric(self, index: int) -> bool:
        """Whether all values of a column are numbers; never the first column."""
        filled = [row[index] for row in self._cells if row[index]]
        return index > 0 and bool(filled) and all(map(NUMBER.match, filled))
