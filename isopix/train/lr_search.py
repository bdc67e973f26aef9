"""Search for a learning rate: from large to small, until the result gets worse (iGPT, appendix)."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

TrialStatus = Literal["completed", "failed", "diverged", "non-finite"]


@dataclass(frozen=True)
class LRTrial:
    """A run at one learning rate: its final validation loss, or the step at which it diverged.

    A trial of fine-tuning has the best validation `accuracy` and its step instead. One that learned nothing
    has `failed`, for a `reason`.
    """

    lr: float
    status: TrialStatus
    step: int
    loss: float | None
    seconds: float
    accuracy: float | None = None
    reason: str = ""

    @property
    def score(self) -> float | None:
        """What is compared, larger is better: the accuracy, or minus the loss; None without either."""
        if self.accuracy is not None:
            return self.accuracy
        return None if self.loss is None else -self.loss


@dataclass(frozen=True)
class LRSearch:
    """Learning rates in decreasing order, and the trials of the first of them."""

    lrs: tuple[float, ...]
    trials: tuple[LRTrial, ...] = ()

    @property
    def scores(self) -> dict[LRTrial, float]:
        """The scores of the completed trials."""
        scored = {trial: trial.score for trial in self.trials if trial.status == "completed"}
        return {trial: score for trial, score in scored.items() if score is not None}

    @property
    def worsened(self) -> bool:
        """Whether a trial after a completed one has failed, or has a lower score."""
        scored = [trial for trial in self.trials if trial.score is not None]
        scores = {**dict.fromkeys(scored, -math.inf), **self.scores}  # without those that failed
        return any(scores[later] < scores[earlier] for earlier, later in pairwise(scored))

    @property
    def finished(self) -> bool:
        """Whether a trial was worse than the one before, or all learning rates have been tried."""
        return self.worsened or len(self.trials) == len(self.lrs)

    @property
    def remaining(self) -> tuple[float, ...]:
        """The learning rates that have not been tried."""
        return self.lrs[len(self.trials) :]

    @property
    def best(self) -> LRTrial | None:
        """The completed trial with the highest score, the largest learning rate of equals; None before the
        end, and if there is none.
        """
        return max(self.scores, key=self.scores.__getitem__, default=None) if self.finished else None


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

    Ends after the first trial that is worse than the one before, or with the last learning rate. `run_trial`
    returns None if it was asked to stop; then the search stops too.
    """
    while not search.finished:
        trial = run_trial(search.remaining[0])
        if trial is None:
            return
        search = LRSearch(search.lrs, (*search.trials, trial))
        yield search
