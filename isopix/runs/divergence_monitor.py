"""Divergence of a trial: the loss of every step is watched, and kept in a file for a process that resumes."""

from collections.abc import Sequence

import numpy as np

from isopix.runs.load import find_checkpoint
from isopix.runs.observer import RunObserver
from isopix.storage.log import read_log
from isopix.storage.run_folder import RunFolder
from isopix.train.divergence import DivergenceDetector
from isopix.train.trainer import Record


class DivergenceMonitor:
    """Detects divergence in the losses of a trial, and passes everything on to another observer."""

    def __init__(self, run: RunFolder, observer: RunObserver, steps: int):
        self._run, self._observer, self._steps = run, observer, steps
        self._detector: DivergenceDetector | None = None

    @property
    def observer(self) -> RunObserver:
        """The observer of the trial, which stops one that has diverged."""
        return self._observer._replace(record=self._record, stop=self._stop, watch=self._watch)

    @property
    def diverged_at(self) -> int | None:
        """The step from which the loss was high; None if it has not diverged."""
        detector = self._detector
        return detector.high_since if detector is not None and detector.diverged else None

    def replay(self) -> None:
        """Read the losses up to the checkpoint from which the run is resumed, and delete later ones."""
        reached = find_checkpoint(self._run.path)[0].records["state"]["step"]
        for record in read_log(self._run.log):
            self._start(record)
        file = self._run.step_losses
        losses = np.fromfile(file, np.float64)[:reached] if file.is_file() else np.empty(0)
        losses.tofile(file)
        self._update(len(losses), losses.tolist())

    def _record(self, record: Record) -> None:
        self._start(record)
        self._observer.record(record)

    def _stop(self) -> bool:
        return self.diverged_at is not None or self._observer.stop()

    def _watch(self, step: int, losses: Sequence[float]) -> None:
        file = self._run.step_losses
        with file.open("r+b" if file.exists() else "wb") as values:
            values.seek(8 * (step - len(losses)))  # earlier than the end after a rollback
            values.write(np.asarray(losses, np.float64).tobytes())
            values.truncate()
        self._update(step, losses)
        self._observer.watch(step, losses)

    def _start(self, record: Record) -> None:
        if record["kind"] == "evaluation" and record["step"] == 0 and self._detector is None:
            name = "total_nats" if "total_nats" in record else "loss_nats"
            self._detector = DivergenceDetector(self._steps, initial_loss=record[name])

    def _update(self, step: int, losses: Sequence[float]) -> None:
        """Add the losses of the steps up to `step`."""
        assert self._detector is not None, "step 0 is evaluated first"
        for number, loss in enumerate(losses, step - len(losses) + 1):
            self._detector.update(number, loss)
