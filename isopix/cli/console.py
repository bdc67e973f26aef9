"""Options, tables and JSON output shared by all commands."""

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from textwrap import wrap
from typing import Annotated, Any

from cyclopts import Parameter
from rich.text import Text

from isopix.cli.output import open_console
from isopix.core.progress import print_line, show_progress
from isopix.core.table import Table
from isopix.core.text import printable

Json = Annotated[
    bool,
    Parameter(
        name="--json", negative="", show_default=False, help="Print the results as JSON and nothing else."
    ),
]
Plugins = Annotated[
    list[Path] | None,
    Parameter(
        name="--plugin",
        negative="",
        help="Python file that registers custom blocks, codecs, objectives, probes ...; repeatable.",
    ),
]


console, error_console = open_console("stdout"), open_console("stderr")


def say(line: str) -> None:
    """Print one line to standard output."""
    print_line(console, line)


def say_wrapped(text: str, *, indent: int = 0, style: str = "") -> None:
    """Print prose, on a terminal wrapped between words, unlike `say` for commands that can be copied."""
    width = _terminal_width()
    text = printable(text)
    lines = [text] if width is None else wrap(text, width - indent, break_long_words=False) or [""]
    for line in lines:
        console.print(Text(" " * indent + line, style=style), soft_wrap=True)


def warn(line: str) -> None:
    """Print one line to standard error."""
    print_line(error_console, line)


def _terminal_width() -> int | None:
    return console.width if console.is_terminal else None


class _PrintMessages(logging.Handler):
    """Prints the warnings and notes of the Python functions to standard error."""

    def emit(self, record: logging.LogRecord) -> None:
        warn(record.getMessage())


logging.getLogger("isopix").setLevel(logging.INFO)
logging.getLogger("isopix").handlers = [_PrintMessages()]
show_progress(next((each for each in (console, error_console) if each.is_terminal), error_console))


def show_json(values: Mapping[str, Any]) -> None:
    """Print values as JSON to standard output."""
    console.out(json.dumps(values, indent=2), highlight=False)


def show(table: Table) -> None:
    """Print a table; on a terminal as wide as that, elsewhere as wide as its values."""
    _, *lines = table.text(_terminal_width(), ascii_only=console.options.ascii_only).split("\n")
    say_wrapped(table.caption, style="bold")
    for line in (*lines, ""):
        console.print(Text(line), soft_wrap=True)
