"""Divergence: detect a training loss that has risen and does not recover."""

import math
from collections import deque
from statistics import median

WINDOW = 0.01  # of the run's steps: shorter rises are noise
MIN_LOSSES = 5  # in the window
MIN_LOST_FRACTION = 0.25  # of the decrease so far: smaller rises are the noise of a high learning rate
MIN_RISE = 0.1  # of the initial loss: smaller rises are noise on the initial plateau
MIN_NOISE = 2.0  # standard deviations of a single loss: what the lowest of many medians of five may be below
MEDIAN_DIFFERENCE = 0.954  # of two normally distributed losses, in standard deviations
DIFFERENCES = 256  # of successive losses, from which the noise is estimated
PATIENCE = 0.2  # of the run's steps: a rise that ends within them is a recovery


class DivergedError(RuntimeError):
    """The training loss has risen and does not recover; since `step` it has been high."""

    def __init__(self, step: int, loss: float, lowest: float):
        super().__init__(
            f"the training has diverged: since step {step} the loss has not come back (now {loss:.4g}, "
            f"lowest {lowest:.4g}); try a lower optimizer.lr"
        )
        self.step = step


class DivergenceDetector:
    """Reads the training losses of a run in order; `diverged` once they have been high for too long.

    The smoothed loss is the median over the last 1 % of the run, at least five losses. It is high while it
    exceeds its minimum so far by a quarter of the decrease so far (the initial loss minus that minimum), by a
    tenth of the initial loss, and by twice the standard deviation of single losses, estimated from the median
    difference of successive ones before the rise. A run has diverged when its smoothed loss has been high for
    a fifth of the run without a break.

    The paper speaks of "an irrecoverable loss spike early on in training" (iGPT, appendix) and gives no rule;
    these thresholds are ours, chosen so that a run that may still be the best is very rarely stopped.
    """

    def __init__(self, steps: int, *, initial_loss: float):
        """Detect the divergence of a run of `steps` steps, whose loss before the first is `initial_loss`."""
        self.steps, self.initial_loss, self.lowest = steps, initial_loss, initial_loss
        self.recent: deque[tuple[int, float]] = deque()
        self.differences: deque[float] = deque(maxlen=DIFFERENCES)
        self.high_since: int | None = None
        self.diverged = False

    def update(self, step: int, loss: float) -> None:
        """Add the training loss at a step; a run that has diverged stays so. A loss that is not finite, whose
        step was skipped, does not count.
        """
        if self.diverged or not math.isfinite(loss):
            return
        if self.recent and self.high_since is None:
            self.differences.append(abs(loss - self.recent[-1][1]))
        self.recent.append((step, loss))
        while len(self.recent) > MIN_LOSSES and self.recent[0][0] <= step - WINDOW * self.steps:
            self.recent.popleft()
        if len(self.recent) < MIN_LOSSES:
            return
        smoothed = median(loss for _, loss in self.recent)
        threshold = max(
            MIN_LOST_FRACTION * (self.initial_loss - self.lowest),
            MIN_RISE * abs(self.initial_loss),
            MIN_NOISE * median(self.differences) / MEDIAN_DIFFERENCE,
        )
        if smoothed <= self.lowest + threshold:
            self.high_since, self.lowest = None, min(self.lowest, smoothed)
            return
        self.high_since = step if self.high_since is None else self.high_since
        self.diverged = step - self.high_since >= PATIENCE * self.steps
