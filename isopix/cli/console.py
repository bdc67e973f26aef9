"""What every verb shares: options, tables, and numbers as JSON."""

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from cyclopts import Parameter
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

Device = Annotated[str, Parameter(help="cpu, cuda, cuda:0, mps, or auto")]
Seed = Annotated[int, Parameter(help="seed of everything that is drawn by chance")]
Json = Annotated[
    bool, Parameter(name="--json", negative="", help="print the numbers as JSON and nothing else")
]
Limit = Annotated[int | None, Parameter(help="take only the first n images of each split")]

console = Console(highlight=False)


def say(line: str) -> None:
    """One line for the user."""
    console.print(line, markup=False, soft_wrap=True)


def warn(line: str) -> None:
    """One line beside the answer, on standard error."""
    Console(stderr=True, highlight=False).print(line, markup=False, soft_wrap=True)


def show_json(values: Mapping[str, Any]) -> None:
    """The numbers, and nothing else, on standard output."""
    print(json.dumps(values, indent=2))


def show_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """A table, its first column and all words to the left, numbers to the right."""
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    for place, column in enumerate(columns):
        words = place == 0 or any(isinstance(row[place], str) for row in rows)
        table.add_column(column, justify="left" if words else "right")
    for row in rows:
        table.add_row(*(Text(str(cell)) for cell in row))
    console.print(table)
