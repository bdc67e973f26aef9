"""Options, tables and JSON output shared by all commands."""

import json
import logging
import os
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from textwrap import wrap
from typing import IO, Annotated, Any, Literal, cast

from cyclopts import Parameter
from rich.console import Console
from rich.text import Text

from isopix.core.progress import print_line, show_progress
from isopix.core.signals import hang_up, stopped_by
from isopix.core.text import Table, printable

TITLES = {"stdout": "standard output", "stderr": "standard error"}


class Output:
    """`sys.stdout` or `sys.stderr`, as it is at every call.

    Characters that its encoding lacks are escaped. Where it cannot be written to, what follows is lost: for a
    training a stop signal, at a pipe that its reader has closed, as `head` does, the end without a message,
    else OSError.
    """

    def __init__(self, name: Literal["stdout", "stderr"]):
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        if attribute == "rich_proxied_file":  # a console would write to that stream instead
            raise AttributeError(attribute)
        return getattr(self._stream(), attribute)

    def write(self, text: str) -> int:
        encoding = self._stream().encoding or "utf-8"
        shown = text.encode(encoding, "backslashreplace").decode(encoding)
        return self._attempt(lambda: self._stream().write(shown))

    def flush(self) -> None:
        self._attempt(self._stream().flush)

    def _stream(self) -> Any:
        stream = getattr(sys, self._name)
        return getattr(stream, "rich_proxied_file", stream)  # a live display replaces the stream

    def _attempt(self, act: Callable[[], int | None]) -> int:
        try:
            return act() or 0
        except OSError as error:
            # The interpreter would write the rest when it ends, and fail (Python's "Note on SIGPIPE").
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream().fileno())
            if stopped_by() or hang_up():
                return 0
            if isinstance(error, BrokenPipeError):
                sys.exit(128 + signal.SIGPIPE)
            raise OSError(error.errno, error.strerror, TITLES[self._name]) from error


def open_console(name: Literal["stdout", "stderr"]) -> Console:
    """Return a console that writes to standard output or error."""
    return Console(highlight=False, file=cast(IO[str], Output(name)))


AS_JSON = "Print the results as JSON only."
PLUGIN = "Python file that registers custom parts, such as blocks, codecs or probes; repeatable."
Json = Annotated[bool, Parameter(name="--json", negative="", show_default=False, help=AS_JSON)]
Plugins = Annotated[list[Path] | None, Parameter(name="--plugin", help=PLUGIN)]


console, error_console = open_console("stdout"), open_console("stderr")


def say(line: str) -> None:
    """Print one line to standard output."""
    print_line(console, line)


def say_wrapped(text: str, *, style: str = "") -> None:
    """Print prose, on a terminal wrapped between words, unlike `say` for commands that can be copied."""
    width, text = _terminal_width(), printable(text)
    for line in [text] if width is None else wrap(text, width, break_long_words=False) or [""]:
        console.print(Text(line, style=style), soft_wrap=True)


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


def show_table(table: Table) -> None:
    """Print a table; on a terminal as wide as that, elsewhere as wide as its values."""
    _, *lines = table.text(_terminal_width(), ascii_only=console.options.ascii_only).split("\n")
    say_wrapped(table.caption, style="bold")
    for line in (*lines, ""):
        console.print(Text(line), soft_wrap=True)
