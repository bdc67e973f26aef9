"""Progress of long steps of the package, as images that are prepared."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from isopix.cli.formats import format_duration, format_rate

INTERVAL = 10.0  # seconds between lines where there is no terminal
REFRESH = 0.1  # seconds between changes on a terminal


@contextmanager
def long_step_display(
    consoles: Sequence[Console], description: str, total: int, done: int
) -> Iterator[Callable[[int], None]]:
    """Show a long step on the first console that is a terminal, as a bar with rate and time left; if none is,
    print a line to the last one every few seconds.
    """
    terminal = next((each for each in consoles if each.is_terminal), None)
    interval = INTERVAL if terminal is None else REFRESH
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[text]}"))
    start = shown = time.monotonic()
    with Progress(*columns, console=terminal, transient=True, disable=terminal is None) as bar:
        task = bar.add_task(description, total=total, completed=done, text="")

        def show(count: int) -> None:
            nonlocal shown
            if time.monotonic() - shown < interval:
                return
            shown = time.monotonic()
            rate = (count - done) / (shown - start)
            left = format_duration((total - count) / rate) if rate else "unknown"
            text = f"{count:,} of {total:,}  {format_rate(rate)}/s  eta {left}"
            if terminal is None:
                consoles[-1].print(f"{description}: {text}", markup=False, soft_wrap=True)
            else:
                bar.update(task, completed=count, text=text)

        yield show
