"""Bars of progress: on a terminal, in the output of a notebook's cell, and lines elsewhere."""

import sys
from html import escape
from importlib import import_module
from typing import Any, Protocol, runtime_checkable

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
from rich.text import Text

from isopix.core.formats import format_duration
from isopix.core.text import printable


@runtime_checkable
class ProgressBar(Protocol):
    """What shows progress. A `live` bar changes in place; others print a line for each change.

    There are at least `interval` seconds between two changes. A `transient` bar disappears at its end.
    """

    live: bool
    interval: float

    def show(self, description: str, done: int, total: int | None, text: str) -> None:
        """Show that so many items of a total are done, and a text; without a total, only that it goes on."""
        ...

    def say(self, line: str) -> None:
        """Print a line that stays."""
        ...

    def close(self) -> None:
        """End the bar."""
        ...


class _Elapsed(ProgressColumn):
    """The time since a bar began, as `elapsed 1:05`."""

    def render(self, task: Task) -> Text:
        """Return the text."""
        return Text(f"elapsed {format_duration(task.elapsed or 0.0)}", style="progress.elapsed")


class TerminalBar:
    """A bar on a terminal. A transient one has the elapsed time."""

    live, interval = True, 0.1

    def __init__(self, console: Console, *, transient: bool):
        self.console = console
        columns = [TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[text]}")]
        elapsed = [_Elapsed()] if transient else []
        self.bar = Progress(*columns, *elapsed, console=console, transient=transient)
        self.task = self.bar.add_task("", total=None, text="")

    def show(self, description: str, done: int, total: int | None, text: str) -> None:
        """Show that so many items of a total are done, and a text."""
        self.bar.update(self.task, description=description, completed=done, total=total, text=text)
        if not self.bar.live.is_started:
            self.bar.start()

    def say(self, line: str) -> None:
        """Print a line above the bar."""
        print_line(self.console, line)

    def close(self) -> None:
        """Stop the bar, and remove it if it is transient."""
        if self.bar.live.is_started:
            self.bar.stop()


class Lines:
    """A line every few seconds, with a separator between description and text."""

    live, interval = False, 10.0

    def __init__(self, console: Console, separator: str):
        self.console, self.separator = console, separator

    def show(self, description: str, done: int, total: int | None, text: str) -> None:
        """Print a line."""
        self.say(f"{description}{self.separator}{text}")

    def say(self, line: str) -> None:
        """Print a line."""
        print_line(self.console, line)

    def close(self) -> None:
        """There is nothing to end."""


class NotebookBar:
    """A bar in the output of a notebook's cell."""

    live, interval = True, 0.2

    def __init__(self, *, transient: bool):
        self.transient = transient
        self.handle: Any = None

    def show(self, description: str, done: int, total: int | None, text: str) -> None:
        """Show that so many items of a total are done, and a text."""
        share = "" if total is None else f'value="{done}" max="{max(total, 1)}"'
        style = "display: flex; gap: 1em; align-items: center; font-variant-numeric: tabular-nums"
        parts = (escape(description), f"<progress {share}></progress>", escape(text))
        spans = "".join(f"<span>{part}</span>" for part in parts)
        self._put(f'<div style="{style}">{spans}</div>', f"{description}  {text}")

    def say(self, line: str) -> None:
        """Print a line below the bar."""
        sys.stdout.write(f"{printable(line)}\n")

    def close(self) -> None:
        """Remove a transient bar; others stay as they are."""
        if self.transient and self.handle is not None:
            self._put("", "")

    def _put(self, html: str, plain: str) -> None:
        display = import_module("IPython.display").display

        data = {"text/html": html, "text/plain": plain}
        if self.handle is None:
            self.handle = display(data, raw=True, display_id=True)
        else:
            self.handle.update(data, raw=True)


def console_bar(console: Console, *, transient: bool, separator: str = "  ") -> ProgressBar:
    """Return a bar if the console is a terminal, else lines."""
    return TerminalBar(console, transient=transient) if console.is_terminal else Lines(console, separator)


def in_notebook() -> bool:
    """Return whether a Jupyter kernel runs this code."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return getattr(shell, "kernel", None) is not None


def print_line(console: Console, line: str) -> None:
    """Print one line that is not wrapped."""
    console.print(printable(line), markup=False, soft_wrap=True)
