"""Search for a learning rate: from large to small, until the final loss increases (iGPT, appendix)."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

TrialStatus = Literal["completed", "diverged", "non-finite"]


@dataclass(frozen=True)
class LRTrial:
    """A run at one learning rate: its final validation loss, or the step at which it diverged."""

    lr: float
    status: TrialStatus
    step: int
    loss: float | None
    seconds: float


@dataclass(frozen=True)
class LRSearch:
    """Learning rates in decreasing order, and the trials of the first of them."""

    lrs: tuple[float, ...]
    trials: tuple[LRTrial, ...] = ()

    @property
    def losses(self) -> dict[LRTrial, float]:
        """The final losses of the completed trials."""
        return {trial: trial.loss for trial in self.trials if trial.loss is not None}

    @property
    def increased(self) -> bool:
        """Whether a completed trial has a higher loss than the completed one before it."""
        return any(later > earlier for earlier, later in pairwise(self.losses.values()))

    @property
    def finished(self) -> bool:
        """Whether the loss has increased or all learning rates have been tried."""
        return self.increased or len(self.trials) == len(self.lrs)

    @property
    def remaining(self) -> tuple[float, ...]:
        """The learning rates that have not been tried."""
        return self.lrs[len(self.trials) :]

    @property
    def best(self) -> LRTrial | None:
        """The trial with the lowest loss, the largest learning rate of equals; None before the end, and if
        every trial diverged.
        """
        return min(self.losses, key=self.losses.__getitem__, default=None) if self.finished else None


def lr_grid(first: float, last: float) -> tuple[float, ...]:
    """Return `first`, then 3 and 1 times the powers of ten below it, down to `last`: 0.01, 0.003, 0.001 ...

    From iGPT, appendix. Raises ValueError unless 0 < last <= first.
    """
    if not 0 < last <= first < math.inf:
        raise ValueError(
            f"learning rates from {first:g} down to {last:g}; allowed: positive numbers in decreasing order"
        )
    powers = range(math.ceil(math.log10(first)), math.floor(math.log10(last)) - 1, -1)
    below = (float(f"{digit}e{power}") for power in powers for digit in (3, 1))
    return (first, *(lr for lr in below if last <= lr < first))


def continue_search(search: LRSearch, run_trial: Callable[[float], LRTrial | None]) -> Iterator[LRSearch]:
    """Run the remaining trials of a search, and yield the search after each.

    Ends after the first increase of the loss, or with the last learning rate. `run_trial` returns None if it
    was asked to stop; then the search stops too.
    """
    while not search.finished:
        trial = run_trial(search.remaining[0])
        if trial is None:
            return
        search = LRSearch(search.lrs, (*search.trials, trial))
        yield search
