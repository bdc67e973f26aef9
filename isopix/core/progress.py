"""Progress of long steps: a bar on a terminal, a line every few seconds elsewhere."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Timer

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from isopix.core import ranks
from isopix.core.text import format_duration, format_rate, printable

CountDone = Callable[[int], None]  # called with the number of items done

DELAY = 0.5  # seconds after which a step has a bar


class ProgressBar:
    """Shows progress by lines, `interval` seconds apart; a `live` bar changes in place instead."""

    live, interval = False, 10.0

    def __init__(self, console: Console):
        self.console = console

    def show(self, description: str, done: int, total: int | None, text: str) -> None:
        """Show that so many items of a total are done, and a text; without a total, only that it goes on."""
        self.say(f"{description}  {text}")

    def say(self, line: str) -> None:
        print_line(self.console, line)

    def close(self) -> None:
        """Let a live bar disappear."""


class TerminalBar(ProgressBar):
    """A bar on a terminal, with the elapsed time."""

    live, interval = True, 0.1

    def __init__(self, console: Console):
        super().__init__(console)
        columns = [TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[text]}")]
        self.bar = Progress(*columns, TimeElapsedColumn(), console=console, transient=True)
        self.task = self.bar.add_task("", total=None, text="")

    def show(self, description: str, done: int, total: int | None, text: str) -> None:
        self.bar.update(self.task, description=description, completed=done, total=total, text=text)
        self.bar.start()

    def close(self) -> None:
        self.bar.stop()


class _Process:
    """The console on which this process shows progress, or False; None until somebody has chosen."""

    console: Console | bool | None = None


def show_progress(shown: bool | Console = True) -> None:
    """Show progress bars on standard error or a console from now on; notebooks do without this call."""
    default = Console(stderr=not _in_notebook(), force_jupyter=False, highlight=False)
    _Process.console = default if shown is True else shown


@contextmanager
def quiet() -> Iterator[None]:
    """Show no progress inside."""
    before, _Process.console = _Process.console, False
    try:
        yield
    finally:
        _Process.console = before


def open_bar() -> ProgressBar | None:
    """Return a new bar; None where progress is not shown, as in ranks other than 0."""
    if _Process.console is None and _in_notebook():
        show_progress()
    console = _Process.console
    if not isinstance(console, Console) or ranks.rank() > 0:
        return None
    return TerminalBar(console) if console.is_terminal else ProgressBar(console)


def announce(text: str) -> None:
    """Print lines where progress is shown."""
    if bar := open_bar():
        for line in text.split("\n"):
            bar.say(line)


@contextmanager
def track(description: str, total: int | None) -> Iterator[CountDone]:
    """Show the progress of a step; yield a function to call with the items done, of `total` if known."""
    bar = open_bar()
    if bar is None:
        yield lambda count: None
        return
    step = _Step(bar, description, total)
    try:
        yield step.show
    finally:
        step.close()


class _Step:
    def __init__(self, bar: ProgressBar, description: str, total: int | None):
        self.bar, self.description, self.total = bar, description, total
        self.begun = self.shown = time.monotonic()
        self.first: tuple[int, float] | None = None  # how many were done when, at the first call
        # The first items, such as the probes of all layers, may be done only at the end.
        count = "" if total is None else f"0 of {total:,}"
        self.delayed = Timer(DELAY, bar.show, (description, 0, total, count))
        if bar.live:
            self.delayed.daemon = True
            self.delayed.start()

    def close(self) -> None:
        self.delayed.cancel()
        if self.delayed.is_alive():
            self.delayed.join()
        self.bar.close()

    def show(self, done: int) -> None:
        now = time.monotonic()
        self.first = self.first or (done, now)
        since, then = self.first
        short = self.bar.live and now - self.begun <= DELAY
        if self.total is None or short or now - self.shown < self.bar.interval:
            return
        self.shown = now
        text = f"{done:,} of {self.total:,}"
        if done > since:  # the first items may have taken longer, to compile
            rate = (done - since) / max(now - then, 1e-9)  # a clock may be coarse
            text += f"  {format_rate(rate)}/s  eta {format_duration((self.total - done) / rate)}"
        self.bar.show(self.description, done, self.total, text)


def print_line(console: Console, line: str) -> None:
    """Print one line that is not wrapped."""
    console.print(printable(line), markup=False, soft_wrap=True)


def _in_notebook() -> bool:
    return Console().is_jupyter
