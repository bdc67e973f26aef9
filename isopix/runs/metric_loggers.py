"""Metric loggers: destinations of a run's metrics besides its log, such as TensorBoard."""

import json
import os
import secrets
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import redirect_stdout
from functools import partial
from typing import Any

from isopix.storage.atomic import read_json, temporary_path
from isopix.storage.run_folder import RunFolder
from isopix.train.trainer import Record

PROJECT = "isopix"  # of Weights & Biases, unless WANDB_PROJECT names another, and of trackio


class MetricLogger(ABC):
    """A destination of metrics, which holds one run."""

    @abstractmethod
    def log(self, step: int, metrics: Mapping[str, int | float]) -> None:
        """Log metrics by name; the step is that of the last call, or a later one."""

    def rewind(self, step: int) -> bool:
        """Hide the metrics of later steps, and return whether that is possible."""
        return False

    @abstractmethod
    def close(self) -> None:
        """Wait until everything is written."""


class TensorBoardLogger(MetricLogger):
    """TensorBoard event files in the folder `tensorboard` of a run."""

    def __init__(self, folder: RunFolder, run_id: str):
        from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415 - an extra

        self._open, self._path = SummaryWriter, str(folder.path / "tensorboard")
        self._writer = self._open(self._path)

    def log(self, step: int, metrics: Mapping[str, int | float]) -> None:
        """Add a scalar for each metric."""
        for name, value in metrics.items():
            self._writer.add_scalar(name, value, step)

    def rewind(self, step: int) -> bool:
        """Start another event file, which hides the later steps of those before it."""
        self._writer.close()
        self._writer = self._open(self._path, purge_step=step + 1)
        return True

    def close(self) -> None:
        self._writer.close()


class WandbLogger(MetricLogger):
    """A run of Weights & Biases, whose local files are in the folder `wandb` of a run."""

    def __init__(self, folder: RunFolder, run_id: str):
        import wandb  # noqa: PLC0415 - an extra

        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", PROJECT),
            id=run_id,
            name=folder.path.name,
            dir=str(folder.path),
            config=read_json(folder.recipe),
            resume="allow",
            settings=wandb.Settings(console="off"),  # the terminal's output is that of isopix
        )

    def log(self, step: int, metrics: Mapping[str, int | float]) -> None:
        """Log the metrics, those of the last step of an earlier process at the step after it, as the library
        ignores earlier ones.
        """
        self._run.log(dict(metrics), step=max(step, self._run.step))

    def close(self) -> None:
        self._run.finish()


class TrackioLogger(MetricLogger):
    """A run of trackio, in its local database (`TRACKIO_DIR`)."""

    def __init__(self, folder: RunFolder, run_id: str):
        import trackio  # noqa: PLC0415 - an extra

        self._finish = trackio.finish  # that of a run is called again, and prints, when the process ends
        with redirect_stdout(sys.stderr):  # it prints, also where only JSON may be printed
            self._run = trackio.init(
                project=PROJECT,
                name=f"{folder.path.name}-{run_id}",  # trackio continues a run by its name
                config=read_json(folder.recipe),
                resume="allow",
                embed=False,
            )

    def log(self, step: int, metrics: Mapping[str, int | float]) -> None:
        """Log the metrics."""
        self._run.log(dict(metrics), step=step)

    def close(self) -> None:
        with redirect_stdout(sys.stderr):
            self._finish()


LOGGERS: dict[str, Callable[[RunFolder, str], MetricLogger]] = {
    "tensorboard": TensorBoardLogger,
    "wandb": WandbLogger,
    "trackio": TrackioLogger,
}


def check_loggers(names: Sequence[str]) -> None:
    """Raise ValueError for a name that is no logger, and for a logger that is not installed or logged in."""
    for name in names:
        if name not in LOGGERS:
            raise ValueError(f"unknown logger '{name}'; choose from {', '.join(LOGGERS)}")
        try:
            _import_package(name)
        except ImportError as error:
            missing = f"logger '{name}' is not installed ({error})"
            raise ValueError(f"{missing}; pip install 'isopix[{name}]'") from None


def metrics_of(record: Record) -> dict[str, int | float]:
    """Return the numbers of a record as `<kind>/<name>`, or `<kind>/<split>/<name>`."""
    prefix = "/".join(record[key] for key in ("kind", "split") if key in record)
    return {
        f"{prefix}/{name}": value
        for name, value in record.items()
        if name not in ("step", "last_step") and isinstance(value, int | float)
    }


class LoggedRun:
    """A run in one logger, with the last step of each metric there, saved in `loggers/NAME.json` with the
    run's id, so that a resumed run continues it.
    """

    def __init__(self, name: str, folder: RunFolder, *, step: int):
        """Open the run at a step; what an earlier process has logged of later steps is hidden, or is kept and
        not logged again.
        """
        self._path = folder.path / "loggers" / f"{name}.json"
        self._path.parent.mkdir(exist_ok=True)
        saved = read_json(self._path) if self._path.exists() else {}
        self._id: str = saved.get("id") or secrets.token_hex(4)
        self._steps: dict[str, int] = saved.get("steps", {})
        self._save()
        self._logger = LOGGERS[name](folder, self._id)
        if self._steps:
            self.rewind(step)

    def write(self, records: Iterable[Record]) -> None:
        """Log the metrics of records, but those that were logged of the same or a later step."""
        for record in records:
            step = _last_step(record)
            metrics = {
                name: value for name, value in metrics_of(record).items() if self._steps.get(name, -1) < step
            }
            if metrics:
                self._steps |= dict.fromkeys(metrics, step)
                self._save()  # before: a kill between the two loses a point rather than repeating it
                self._logger.log(step, metrics)

    def rewind(self, step: int) -> None:
        """Hide what was logged of later steps, where the logger can."""
        if self._logger.rewind(step):
            self._steps = {name: min(last, step) for name, last in self._steps.items()}

    def close(self) -> None:
        """Close the logger."""
        self._logger.close()

    def _save(self) -> None:
        """Replace the file, without waiting for the disk, as this is done with every record."""
        temporary = temporary_path(self._path)
        temporary.write_text(json.dumps({"id": self._id, "steps": self._steps}))
        temporary.replace(self._path)


class RunLoggers:
    """The loggers of a run; one that fails is switched off, and `record` is called with a note of it."""

    def __init__(self, names: Sequence[str], folder: RunFolder, *, record: Callable[[Record], None]):
        own = folder.saved_at is None  # of several processes, the one that saves the run logs it
        self._names, self._folder, self._record = list(dict.fromkeys(names)) if own else [], folder, record
        self._open: dict[str, LoggedRun] = {}
        self._start = self._step = 0

    def write(self, record: Record, earlier: Callable[[], Sequence[Record]]) -> None:
        """Log a record; a logger that is opened for it, and has none of the `earlier` ones, gets these first.

        Loggers are opened once the run has its own name: they hold its path.
        """
        if self._folder.target is not None:
            return
        self._step = _last_step(record)
        for name in list(self._names):
            self._try(name, partial(self._write, name, record, earlier))

    def rewind(self, step: int) -> None:
        """Go back to a step, that of a checkpoint."""
        self._start = self._step = step
        for name, run in list(self._open.items()):
            self._try(name, partial(run.rewind, step))

    def close(self) -> None:
        """Close all loggers."""
        for name, run in list(self._open.items()):
            self._try(name, run.close)
        self._open, self._names = {}, []

    def _write(self, name: str, record: Record, earlier: Callable[[], Sequence[Record]]) -> None:
        if name not in self._open:
            self._open[name] = LoggedRun(name, self._folder, step=self._start)
            self._open[name].write(earlier())
        self._open[name].write([record])

    def _try(self, name: str, action: Callable[[], Any]) -> None:
        """Call an action of a logger, and switch the logger off if it fails: training goes on."""
        if name not in self._names:  # it was switched off, as the note about another was written
            return
        try:
            action()
        except Exception as error:  # a foreign library may raise anything
            self._names.remove(name)
            self._open.pop(name, None)
            reason = " ".join(str(error).split())
            text = f"logger '{name}' is switched off: {type(error).__name__}: {reason}"
            self._record({"kind": "note", "step": self._step, "text": text})


def _last_step(record: Record) -> int:
    """Return when a record was written: a test at the end of a run has the step of the weights."""
    return max(record["step"], record.get("last_step", 0))


def _import_package(name: str) -> None:
    """Import a logger's package. Raises ValueError where it would ask for a login in training."""
    if name == "tensorboard":
        from torch.utils.tensorboard import SummaryWriter  # noqa: F401, PLC0415
    elif name == "wandb":
        import wandb  # noqa: PLC0415

        if wandb.setup().settings.mode == "online" and not wandb.login(prompt=False, verify=False):
            raise ValueError("logger 'wandb' has no account: run `wandb login`, or set WANDB_MODE=offline")
    else:
        import trackio  # noqa: F401, PLC0415
