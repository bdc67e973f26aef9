"""Progress of long steps, such as images that are prepared: shown by a display, or not at all."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from isopix.core import ranks

Count = Callable[[int], None]  # called with the number of items done
Display = Callable[
    [str, int | None, int], AbstractContextManager[Count]
]  # of what, the total if it is known, and what is done

_displays: list[Display] = []  # the one that is used, if there is one


def set_display(display: Display | None) -> None:
    """Show the progress of long steps by a display from now on; None shows nothing."""
    _displays[:] = [] if display is None else [display]


@contextmanager
def long_step(description: str, total: int | None, done: int = 0) -> Iterator[Count]:
    """Yield a function to be called with the number of items done of `total`, which the first of several
    processes shows.

    Without a total, only that the step goes on is shown.
    """
    if not _displays or ranks.rank() > 0:
        yield lambda count: None
        return
    with _displays[0](description, total, done) as count:
        yield count
