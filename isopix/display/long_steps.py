"""Progress of long steps of the package, as images that are prepared."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Timer

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from isopix.display.formats import format_duration, format_rate

INTERVAL = 10.0  # seconds between lines where there is no terminal
REFRESH = 0.1  # seconds between changes on a terminal
DELAY = 0.5  # seconds after which a step has a bar on a terminal


class LongStep:
    """A bar with rate, time left and elapsed time on the first console that is a terminal; if none is, a line
    to the last one every few seconds.

    A step of unknown total has a bar that only moves, and no lines.
    """

    def __init__(self, consoles: Sequence[Console], description: str, total: int | None, done: int = 0):
        self.terminal = next((each for each in consoles if each.is_terminal), None)
        self.description, self.total, self.before, self.last = description, total, done, consoles[-1]
        self.begun = self.shown = time.monotonic()
        text = TextColumn("{task.fields[text]}")
        columns = (TextColumn("{task.description}"), BarColumn(), text, TimeElapsedColumn())
        self.bar = Progress(*columns, console=self.terminal, transient=True, disable=self.terminal is None)
        count = "" if total is None else f"{done:,} of {total:,}"
        self.task = self.bar.add_task(description, total=total, completed=done, text=count)
        # The first items, such as the probes of all layers, may be done only at the end.
        self.delayed = Timer(DELAY, self.start)
        if total is not None and self.terminal is not None:
            self.delayed.daemon = True
            self.delayed.start()

    def start(self) -> None:
        """Show the bar."""
        if not self.bar.live.is_started:
            self.bar.start()

    def close(self) -> None:
        """Remove the bar."""
        self.delayed.cancel()
        if self.delayed.is_alive():
            self.delayed.join()
        if self.bar.live.is_started:
            self.bar.stop()

    def show(self, count: int, total: int | None = None) -> None:
        """Show that so many items are done, if the last change is long enough ago."""
        now = time.monotonic()
        if self.total is None:  # what came before the first items is not their time
            self.begun, self.before = now, count
        self.total = self.total if total is None else total
        if now - self.shown < (INTERVAL if self.terminal is None else REFRESH) or self.total is None:
            return
        self.shown = now
        rate = (count - self.before) / max(now - self.begun, 1e-9)  # a clock may be coarse
        left = format_duration((self.total - count) / rate) if rate else "unknown"
        text = f"{count:,} of {self.total:,}  {format_rate(rate)}/s  eta {left}"
        if self.terminal is None:
            self.last.print(f"{self.description}: {text}", markup=False, soft_wrap=True)
            return
        self.bar.update(self.task, completed=count, total=self.total, text=text)
        if now - self.begun > DELAY:
            self.start()


@contextmanager
def long_step_display(
    consoles: Sequence[Console], description: str, total: int | None, done: int
) -> Iterator[Callable[[int], None]]:
    """Show a long step; yield a function to be called with the number of items done. Without a total, the bar
    says only that the step goes on.
    """
    step = LongStep(consoles, description, total, done)
    try:
        if total is None:
            step.start()
        yield step.show
    finally:
        step.close()
