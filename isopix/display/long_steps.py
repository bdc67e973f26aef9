"""Progress of long steps, such as images that are prepared: a bar with rate, time left and elapsed time."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Timer

from isopix.core.formats import format_duration, format_rate
from isopix.display.bars import ProgressBar

DELAY = 0.5  # seconds after which a step has a bar that changes in place


class LongStep:
    """A step with a bar. One of unknown total has a bar that only moves, and no lines."""

    def __init__(self, bar: ProgressBar, description: str, total: int | None, done: int = 0):
        self.bar, self.description, self.total, self.before = bar, description, total, done
        self.begun = self.shown = time.monotonic()
        self.first: tuple[int, float] | None = None  # how many were done when, at the first call
        # The first items, such as the probes of all layers, may be done only at the end.
        self.delayed = Timer(DELAY, self._show_start)
        if bar.live:
            self.delayed.daemon = True
            self.delayed.start()

    def _show_start(self) -> None:
        count = "" if self.total is None else f"{self.before:,} of {self.total:,}"
        self.bar.show(self.description, self.before, self.total, count)

    def close(self) -> None:
        """End the bar."""
        self.delayed.cancel()
        if self.delayed.is_alive():
            self.delayed.join()
        self.bar.close()

    def show(self, done: int) -> None:
        """Show that so many items are done, if the last change is long enough ago."""
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


@contextmanager
def long_step_display(
    open_bar: Callable[[], ProgressBar], description: str, total: int | None, done: int
) -> Iterator[Callable[[int], None]]:
    """Show a long step with a new bar; yield a function to be called with the number of items done."""
    step = LongStep(open_bar(), description, total, done)
    try:
        yield step.show
    finally:
        step.close()
