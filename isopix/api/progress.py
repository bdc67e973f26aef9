"""Progress: how a function tells its caller what is done."""

from collections.abc import Callable

Progress = Callable[[int, int], None]  # called with the number of items done and the total


def count_progress(progress: Progress | None, total: int, before: int = 0) -> Callable[[int], None]:
    """Return a function of the number done, after those done `before`, that calls `progress` with the total
    too.
    """
    return (lambda done: None) if progress is None else lambda done: progress(before + done, total)
