"""Descent: the paper's search for a learning rate, from large to small until the final loss rises."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

Fate = Literal["final", "spiked", "non-finite"]


@dataclass(frozen=True)
class Rung:
    """A run at one rate: the validation loss at its end, or the step at which it died."""

    rate: float
    fate: Fate
    step: int
    loss: float | None
    seconds: float


@dataclass(frozen=True)
class Descent:
    """The rates in their order, and what became of the first of them."""

    rates: tuple[float, ...]
    rungs: tuple[Rung, ...] = ()

    @property
    def losses(self) -> dict[Rung, float]:
        """Of the rungs that reached their end."""
        return {rung: rung.loss for rung in self.rungs if rung.loss is not None}

    @property
    def risen(self) -> bool:
        """Whether a rung ended with a higher loss than the survivor before it."""
        return any(later > earlier for earlier, later in pairwise(self.losses.values()))

    @property
    def finished(self) -> bool:
        return self.risen or len(self.rungs) == len(self.rates)

    @property
    def untried(self) -> tuple[float, ...]:
        """The rates that come after the last rung."""
        return self.rates[len(self.rungs) :]

    @property
    def chosen(self) -> Rung | None:
        """The rung with the lowest loss, the largest rate of equals; None before the end, or if all died."""
        return min(self.losses, key=self.losses.__getitem__, default=None) if self.finished else None


def ladder(first: float, smallest: float) -> tuple[float, ...]:
    """`first`, then 1 and 3 times every power of ten below it, down to `smallest`: 0.01, 0.003, 0.001 ...

    iGPT, appendix. Raises ValueError unless 0 < smallest <= first.
    """
    if not 0 < smallest <= first < math.inf:
        raise ValueError(
            f"the rates go from {first:g} down to {smallest:g}; allowed: positive numbers, in this order"
        )
    powers = range(math.ceil(math.log10(first)), math.floor(math.log10(smallest)) - 1, -1)
    below = (float(f"{digit}e{power}") for power in powers for digit in (3, 1))
    return (first, *(rate for rate in below if smallest <= rate < first))


def descend(descent: Descent, run: Callable[[float], Rung | None]) -> Iterator[Descent]:
    """Go on from where the descent is, and yield it after every rung, until its end.

    It ends after the first rung whose loss is higher than that of the survivor before it, or with the rates.
    `run` returns None if it was asked to stop; then the descent stops too.
    """
    while not descent.finished:
        rung = run(descent.untried[0])
        if rung is None:
            return
        descent = Descent(descent.rates, (*descent.rungs, rung))
        yield descent
