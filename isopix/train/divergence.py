"""Spike: whether a training loss has risen for good, so that going on would be wasted."""

from collections import deque
from statistics import median

WINDOW = 0.01  # of the run's steps: a rise that is shorter is noise
FEWEST = 5  # losses of which the middle one is taken
LOST = 0.25  # of all that was learnt: a smaller rise is a high rate's own noise, which decays with it
ROOM = 0.1  # of the first loss: on the plateau before anything is learnt, a smaller rise is noise
PATIENCE = 0.2  # of the run's steps: what recovers within them has recovered


class Spike:
    """Sees the losses of a run in their order; `dead` once they have been high for too long.

    The smoothed loss is the median of the last 1 % of the run, of five losses at the least. It is high while
    it exceeds its lowest value so far by a quarter of what has been learnt (the loss before the first step
    minus that lowest value) and by a tenth of the loss before the first step. A run is dead when its smoothed
    loss has been high for a fifth of the run without a break; one that has come back to chance is one such.

    The paper speaks of "an irrecoverable loss spike early on in training" (iGPT, appendix) and gives no rule:
    the shares are ours, chosen so that a run that might still be the best is never given up.
    """

    def __init__(self, steps: int, *, before: float):
        """Of a run of that many steps whose loss was `before` until its first step."""
        self.steps, self.before, self.lowest = steps, before, before
        self.recent: deque[tuple[int, float]] = deque()
        self.since: int | None = None
        self.dead = False

    def see(self, step: int, loss: float) -> None:
        """The training loss at that step; what is dead stays dead."""
        if self.dead:
            return
        self.recent.append((step, loss))
        while len(self.recent) > FEWEST and self.recent[0][0] <= step - WINDOW * self.steps:
            self.recent.popleft()
        if len(self.recent) < FEWEST:
            return
        smoothed = median(loss for _, loss in self.recent)
        room = max(LOST * (self.before - self.lowest), ROOM * abs(self.before))
        if smoothed <= self.lowest + room:
            self.since, self.lowest = None, min(self.lowest, smoothed)
            return
        self.since = step if self.since is None else self.since
        self.dead = step - self.since >= PATIENCE * self.steps
