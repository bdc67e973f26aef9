"""How fast a run goes: images a second since the last line, evaluations and checkpoints not counted."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Meter:
    """Counts steps of `batch` images against the clock."""

    def __init__(self, batch: int):
        self.batch = batch
        self.steps, self.seconds = 0, 0.0
        self.since = time.perf_counter()

    def tick(self) -> None:
        """One step is done."""
        self.steps += 1

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Time inside does not count."""
        began = time.perf_counter()
        yield
        self.since += time.perf_counter() - began

    def record(self, step: int, loss: float, learning_rate: float) -> dict[str, Any]:
        """A line of the log; the clock starts anew."""
        now = time.perf_counter()
        rate = self.steps * self.batch / max(now - self.since, 1e-9)
        self.seconds += now - self.since
        self.steps, self.since = 0, now
        return {
            "kind": "train",
            "step": step,
            "images": step * self.batch,
            "loss_nats": loss,
            "learning_rate": learning_rate,
            "images_per_second": rate,
            "seconds": self.seconds,
        }
