"""What every verb shares: options, tables, and numbers as JSON."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
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
Source = Annotated[
    str | None,
    Parameter(
        help="a folder of images, an .npz file, a Parquet file or folder, or a name (digits, cifar10, ...)"
    ),
]
OtherImages = Annotated[
    str | None,
    Parameter(help="Other images than the run's own: a folder, an .npz file, Parquet, or a name."),
]
OtherLabelled = Annotated[
    str | None,
    Parameter(help="Other labelled images than the run's own: a folder, an .npz file, Parquet, or a name."),
]
PaletteFile = Annotated[
    Path | None,
    Parameter(help="a palette file; without one, colours are fitted to the training images"),
]
SettingsFile = Annotated[
    Path | None,
    Parameter(help="changes in a .yaml, .toml or .json file; words on the command line win over it"),
]
OwnSeed = Annotated[
    int | None,
    Parameter(help="seed of everything that is drawn by chance; the recipe's or the run's without it"),
]
Board = Annotated[bool, Parameter(help="also write TensorBoard files, into the run folder")]
Limit = Annotated[int | None, Parameter(help="take only the first n images of each split")]

console = Console(highlight=False)


def changes(
    *, data: str | None, limit: int | None, seed: int | None, palette: Path | None = None
) -> dict[str, Any]:
    """What the options that verbs share change in a recipe, by path; None changes nothing."""
    source = None if palette is None else str(palette)
    return {"data.source": data, "data.limit": limit, "codec.palette_file": source, "seed": seed}


def say(line: str) -> None:
    """One line for the user."""
    console.print(line, markup=False, soft_wrap=True)


def warn(line: str) -> None:
    """One line beside the answer, on standard error."""
    Console(stderr=True, highlight=False).print(line, markup=False, soft_wrap=True)


def percent(share: float, low: float, high: float) -> str:
    """A share with its interval: `41.2% (39.8% to 42.5%)`."""
    return f"{share:.1%} ({low:.1%} to {high:.1%})"


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
