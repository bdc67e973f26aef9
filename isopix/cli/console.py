"""Options, tables and JSON output shared by all commands."""

import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from textwrap import fill
from typing import IO, Annotated, Any, Literal, cast

from cyclopts import Parameter, validators
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from isopix.cli.long_steps import long_step_display
from isopix.cli.output import Output
from isopix.core.progress import show_progress
from isopix.core.registry import load_plugin
from isopix.core.text import printable

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
        help="Dataset: an image folder, .npz, Parquet, tar or Arrow files, or name (digits, cifar10, ...)."
    ),
]
OtherImages = Annotated[
    str | None,
    Parameter(help="Dataset to use instead of the run's own: a folder, .npz, Parquet, tar, Arrow or name."),
]
OtherLabeled = Annotated[
    str | None,
    Parameter(help="Labeled dataset instead of the run's own: a folder, .npz, Parquet, tar, Arrow or name."),
]
PaletteFile = Annotated[
    Path | None, Parameter(help="Palette file. By default, a palette is fitted to the training images.")
]
SettingsFile = Annotated[
    Path | None,
    Parameter(help="Settings in a .yaml, .toml or .json file; command-line settings override it."),
]
RunSeed = Annotated[
    int | None,
    Parameter(
        help="Random seed of weights and batches (of splits: data.seed). Default: that of the recipe or run."
    ),
]
Loggers = Annotated[
    list[str] | None,
    Parameter(
        name="--logger", negative="", help="Also log metrics to tensorboard, wandb or trackio; repeatable."
    ),
]
Limit = Annotated[
    int | None, Parameter(help="Use only N random images of each split, equally many of each class.")
]
Plugins = Annotated[
    list[Path] | None,
    Parameter(
        name="--plugin",
        negative="",
        help="Python file that registers custom blocks, codecs, objectives, probes ...; repeatable.",
    ),
]

Positive = validators.Number(gte=1)
Count = Annotated[int, Parameter(name=["--count", "-n"], validator=Positive, help="Number of images.")]
Split = Annotated[
    Literal["train", "validation", "test"] | None,
    Parameter(help="Split of the dataset. Default: test, or all images of another unsplit dataset."),
]

console = Console(highlight=False, file=cast(IO[str], Output("stdout")))
error_console = Console(highlight=False, file=cast(IO[str], Output("stderr")))


def load_plugins(files: Sequence[Path] | None) -> None:
    """Import the Python files that register parts. Raises ValueError for a file that is not a plugin."""
    for path in files or ():
        load_plugin(path)


def follow_up_options(
    *,
    plugin: Sequence[Path] | None,
    device: str = "auto",
    devices: int | None = None,
    logger: Sequence[str] | None = None,
    slurm: Sequence[str] | None = None,
) -> list[object]:
    """Return the options of a command that a follow-up command needs, too."""
    words: list[object] = [word for path in plugin or () for word in ("--plugin", path)]
    words += [] if device == "auto" else ["--device", device]
    words += [] if devices is None else ["--devices", devices]
    words += [word for name in logger or () for word in ("--logger", name)]
    return words + ([] if slurm is None else ["--slurm", *slurm])


def say(line: str) -> None:
    """Print one line to standard output."""
    console.print(printable(line), markup=False, soft_wrap=True)


def warn(line: str) -> None:
    """Print one line to standard error."""
    error_console.print(printable(line), markup=False, soft_wrap=True)


def percent_with_interval(fraction: float, low: float, high: float) -> str:
    """Format a fraction with its interval: `41.2% (39.8 to 42.5)`."""
    return f"{fraction:.1%} ({100 * low:.1f} to {100 * high:.1f})"


class _PrintMessages(logging.Handler):
    """Prints the warnings and notes of the Python functions to standard error."""

    def emit(self, record: logging.LogRecord) -> None:
        warn(record.getMessage())


logging.getLogger("isopix").setLevel(logging.INFO)
logging.getLogger("isopix").addHandler(_PrintMessages())
show_progress(partial(long_step_display, (console, error_console)))


def show_json(values: Mapping[str, Any]) -> None:
    """Print values as JSON to standard output."""
    print(json.dumps(values, indent=2))


def show_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a title and a table; the first column and text align left, numbers right.

    A column of numbers, such as accuracies with their intervals, is not wrapped before one of words.
    """
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for i, column in enumerate(columns):
        is_text = i == 0 or any(isinstance(row[i], str) for row in rows)
        cells = [printable(str(row[i])) for row in rows if str(row[i])]
        short = len(column) <= max(map(len, cells), default=0)
        numbers = i > 0 and short and all(cell[0] in "0123456789+-<−" for cell in cells)
        table.add_column(
            Text(printable(column)), justify="left" if is_text else "right", no_wrap=numbers, overflow="fold"
        )
    for row in rows:
        table.add_row(*(Text(printable(str(value))) for value in row))
    console.print(Text(printable(title), style="bold"), soft_wrap=True)
    console.print(table)


def show_entries(title: str, entries: Iterable[tuple[str, str]]) -> None:
    """Print a title and, for each entry, a line that is not wrapped and its description below it."""
    console.print(Text(printable(title), style="bold"), soft_wrap=True)
    for entry, description in entries:
        console.print(Text(f"  {printable(entry)}"), soft_wrap=True)
        indent = " " * 6
        wrapped = fill(printable(description), console.width, initial_indent=indent, subsequent_indent=indent)
        console.print(Text(wrapped, style="dim"), soft_wrap=True)


def show_saved(record: Mapping[str, Any], path: object, *, json: bool) -> None:
    """Print the record of a saved picture as JSON, or else its path."""
    if json:
        show_json(record)
    else:
        say(f"wrote {path}")
