"""Progress of the Python functions: their `progress` arguments, and the bars that are their default in
notebooks and after `show_progress`.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial, wraps
from typing import ParamSpec, TypeVar, cast

from rich.console import Console

from isopix.api.arguments import checked
from isopix.api.signatures import name_types
from isopix.core import progress, ranks
from isopix.core.device import DeviceLike
from isopix.core.progress import long_step
from isopix.display.bars import NotebookBar, ProgressBar, console_bar, in_notebook
from isopix.display.long_steps import long_step_display
from isopix.display.training import TrainingDisplay
from isopix.recipes.recipe import Recipe
from isopix.train.trainer import Record

P = ParamSpec("P")
R = TypeVar("R")

Progress = Callable[[int, int], None]  # called with the number of items done and the total
# Called with every record of the log of each training, after one of kind "start" whose `text` describes it.
TrainingProgress = Callable[[Recipe, Record], None]
name_types(Progress=Progress, TrainingProgress=TrainingProgress)

_bars: list[bool] = []  # whether bars are shown; empty before it is decided


def count_progress(progress: Progress | None, total: int, before: int = 0) -> Callable[[int], None]:
    """Return a function of the number done, after those done `before`, that calls `progress` with the total
    too.
    """
    return (lambda done: None) if progress is None else lambda done: progress(before + done, total)


@checked
def show_progress(shown: bool = True) -> None:
    """Show bars of training and other long steps from now on, or none: below the cell of a notebook, where
    they are shown without this call, and elsewhere on standard error. Arguments `progress` replace them.
    """
    _bars[:] = [shown]
    progress.set_display(partial(long_step_display, partial(_open_bar, transient=True)) if shown else None)


def shows_progress(description: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator that lets a function show a bar of this description if its `progress` is None."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
            if kwargs.get("progress") is not None:
                return function(*args, **kwargs)
            with _long_step(description) as shown:
                kwargs["progress"] = shown
                return function(*args, **kwargs)

        return wrapped

    return decorate


def shows_training(name: str = "progress") -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator that lets a function show its trainings if its argument of this name is None."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
            if kwargs.get(name) is not None or not (_bars and _bars[0]) or ranks.rank() > 0:
                return function(*args, **kwargs)
            device = cast(DeviceLike, kwargs.get("device", "auto"))
            with TrainingDisplay(device, partial(_open_bar, transient=False)) as display:
                kwargs[name] = display
                return function(*args, **kwargs)

        return wrapped

    return decorate


@contextmanager
def _long_step(description: str) -> Iterator[Progress]:
    """Yield a function that shows a long step from its first call, which brings the total, to its last item;
    what comes afterwards is another step.
    """
    with ExitStack() as stack:
        opened: list[Callable[[int], None]] = []

        def show(done: int, total: int) -> None:
            if not opened:
                opened.append(stack.enter_context(long_step(description, total, done)))
            opened[0](done)
            if done >= total:
                stack.close()
                opened.clear()

        yield show


def _open_bar(*, transient: bool) -> ProgressBar:
    if in_notebook():
        return NotebookBar(transient=transient)
    separator = ": " if transient else "  "
    return console_bar(Console(stderr=True, highlight=False), transient=transient, separator=separator)


if in_notebook():
    show_progress()
