"""Options, tables and JSON output shared by all commands."""

import importlib.util
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

Device = Annotated[str, Parameter(help="Device: cpu, cuda, cuda:0, mps, or auto.")]
Seed = Annotated[int, Parameter(help="Random seed.")]
Json = Annotated[
    bool,
    Parameter(
        name="--json", negative="", show_default=False, help="Print the results as JSON and nothing else."
    ),
]
Source = Annotated[
    str | None,
    Parameter(
        help="Data set: an image folder, .npz file, Parquet file or folder, or name (digits, cifar10, ...)."
    ),
]
OtherImages = Annotated[
    str | None,
    Parameter(help="Data set to use instead of the run's own: a folder, .npz, Parquet or name."),
]
OtherLabeled = Annotated[
    str | None,
    Parameter(help="Labeled data set to use instead of the run's own: a folder, .npz, Parquet or name."),
]
PaletteFile = Annotated[
    Path | None, Parameter(help="Palette file. By default, a palette is fitted to the training images.")
]
SettingsFile = Annotated[
    Path | None,
    Parameter(help="Settings in a .yaml, .toml or .json file; command-line settings override it."),
]
RunSeed = Annotated[int | None, Parameter(help="Random seed. By default, that of the recipe or run.")]
TensorBoard = Annotated[bool, Parameter(help="Also write TensorBoard logs to the run folder.")]
Limit = Annotated[int | None, Parameter(help="Use only the first N images of each split.")]
Plugins = Annotated[
    list[Path] | None,
    Parameter(name="--plugin", negative="", help="Python file that registers your own parts; repeatable."),
]

console = Console(highlight=False)


def load_plugins(files: Sequence[Path] | None) -> None:
    """Import the Python files that register parts. Raises ValueError for a path that is not a Python file."""
    for path in files or ():
        name = f"isopix_plugin_{path.stem}"
        spec = importlib.util.spec_from_file_location(name, path) if path.is_file() else None
        if spec is None or spec.loader is None:
            raise ValueError(f"--plugin {path} is not a Python file")
        sys.modules[name] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)


def plugin_options(files: Sequence[Path] | None) -> list[object]:
    """Return the `--plugin` options that a follow-up command needs."""
    return [word for path in files or () for word in ("--plugin", path)]


def overrides(
    *, data: str | None, limit: int | None, seed: int | None, palette: Path | None = None
) -> dict[str, Any]:
    """Return the recipe settings that the shared options override, by path; None leaves a setting alone."""
    source = None if palette is None else str(palette)
    return {"data.source": data, "data.limit": limit, "codec.palette_file": source, "seed": seed}


def say(line: str) -> None:
    """Print one line to standard output."""
    console.print(line, markup=False, soft_wrap=True)


def warn(line: str) -> None:
    """Print one line to standard error."""
    Console(stderr=True, highlight=False).print(line, markup=False, soft_wrap=True)


def percent(fraction: float, low: float, high: float) -> str:
    """Format a fraction with its interval: `41.2% (39.8% to 42.5%)`."""
    return f"{fraction:.1%} ({low:.1%} to {high:.1%})"


def show_json(values: Mapping[str, Any]) -> None:
    """Print values as JSON to standard output."""
    print(json.dumps(values, indent=2))


def show_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a title and a table; the first column and text align left, numbers right."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for i, column in enumerate(columns):
        is_text = i == 0 or any(isinstance(row[i], str) for row in rows)
        table.add_column(column, justify="left" if is_text else "right")
    for row in rows:
        table.add_row(*(Text(str(value)) for value in row))
    console.print(Text(title, style="bold"), soft_wrap=True)
    console.print(table)
