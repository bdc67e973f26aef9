"""What training takes, without evaluations and checkpoints: time, memory, and energy where it is counted."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch

from isopix.core.energy import Counter
from isopix.core.memory import peak_memory_so_far


class Throughput:
    """Counts steps of `batch_size` images, the time that they take, and the joules of `energy`."""

    def __init__(self, batch_size: int, device: torch.device, energy: Counter | None):
        self.batch_size, self.device, self.energy = batch_size, device, energy
        self.steps, self.seconds, self.joules = 0, 0.0, 0.0
        self.since, self.energy_since = self._now()

    def count_step(self) -> None:
        """Count a step."""
        self.steps += 1

    @contextmanager
    def exclude(self) -> Iterator[None]:
        """Leave out the time and energy spent inside."""
        time_before, energy_before = self._now()
        yield
        time_after, energy_after = self._now()
        self.since += time_after - time_before
        self.energy_since += energy_after - energy_before

    def record(self, step: int, losses: Mapping[str, float], learning_rate: float) -> dict[str, Any]:
        """Return the log record of training at `step`, and restart the clock."""
        now, energy = self._now()
        rate = self.steps * self.batch_size / max(now - self.since, 1e-9)
        self.seconds += now - self.since
        self.joules += energy - self.energy_since
        self.steps, self.since, self.energy_since = 0, now, energy
        peak = peak_memory_so_far(self.device)
        return {
            "kind": "train",
            "step": step,
            "images": step * self.batch_size,
            **losses,
            "learning_rate": learning_rate,
            "images_per_second": rate,
            "seconds": self.seconds,
            **({} if peak is None else {"peak_memory_bytes": peak}),
            **({} if self.energy is None else {"energy_joules": self.joules}),
        }

    def _now(self) -> tuple[float, float]:
        """Return seconds and joules since fixed moments."""
        return time.perf_counter(), self.energy() if self.energy else 0.0
