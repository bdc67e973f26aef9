"""Throughput: images per second since the last line of the log, without evaluations and checkpoints."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any


class Throughput:
    """Counts steps of `batch_size` images and the time that they take."""

    def __init__(self, batch_size: int):
        self.batch_size = batch_size
        self.steps, self.seconds = 0, 0.0
        self.since = time.perf_counter()

    def count_step(self) -> None:
        """Count a step."""
        self.steps += 1

    @contextmanager
    def exclude(self) -> Iterator[None]:
        """Leave out the time spent inside."""
        start = time.perf_counter()
        yield
        self.since += time.perf_counter() - start

    def record(self, step: int, losses: Mapping[str, float], learning_rate: float) -> dict[str, Any]:
        """Return the log record of training at `step`, and restart the clock."""
        now = time.perf_counter()
        rate = self.steps * self.batch_size / max(now - self.since, 1e-9)
        self.seconds += now - self.since
        self.steps, self.since = 0, now
        return {
            "kind": "train",
            "step": step,
            "images": step * self.batch_size,
            **losses,
            "learning_rate": learning_rate,
            "images_per_second": rate,
            "seconds": self.seconds,
        }
