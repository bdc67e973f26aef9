"""Loggers: destinations of a run's metrics besides its log: TensorBoard, Weights & Biases, trackio."""

import json
import os
import secrets
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from importlib import import_module

from isopix.storage.atomic import read_json, temporary_path
from isopix.storage.run_folder import RunFolder
from isopix.train.trainer import Record

Metrics = Mapping[str, int | float]
Opened = tuple[Callable[[int, Metrics], None], Callable[[], None]]  # logs metrics of a step; closes

PROJECT = "isopix"  # of Weights & Biases, unless WANDB_PROJECT names another, and of trackio


def _tensorboard(folder: RunFolder, run_id: str, hide_after: int | None) -> Opened:
    from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415 - an extra

    purge_step = None if hide_after is None else hide_after + 1
    writer = SummaryWriter(str(folder.path / "tensorboard"), purge_step=purge_step)

    def log(step: int, metrics: Metrics) -> None:
        for name, value in metrics.items():
            writer.add_scalar(name, value, step)

    return log, writer.close


def _wandb(folder: RunFolder, run_id: str, hide_after: int | None) -> Opened:
    import wandb  # noqa: PLC0415 - an extra

    run = wandb.init(
        project=os.environ.get("WANDB_PROJECT", PROJECT),
        id=run_id,
        name=folder.path.name,
        dir=str(folder.path),
        config=read_json(folder.recipe),
        resume="allow",
        settings=wandb.Settings(console="off"),  # the terminal's output is that of isopix
    )

    def log(step: int, metrics: Metrics) -> None:
        run.log(dict(metrics), step=max(step, run.step))  # it ignores what is before its own step

    return log, run.finish


def _trackio(folder: RunFolder, run_id: str, hide_after: int | None) -> Opened:
    import trackio  # noqa: PLC0415 - an extra

    with redirect_stdout(sys.stderr):  # it prints, also where only JSON may be printed
        run = trackio.init(
            project=PROJECT,
            name=f"{folder.path.name}-{run_id}",  # trackio continues a run by its name
            config=read_json(folder.recipe),
            resume="allow",
            embed=False,
        )

    def close() -> None:
        with redirect_stdout(sys.stderr):
            trackio.finish()  # that of the run is called again, and prints, when the process ends

    return lambda step, metrics: run.log(dict(metrics), step=step), close


OPEN = {"tensorboard": _tensorboard, "wandb": _wandb, "trackio": _trackio}
PACKAGES = {"tensorboard": "torch.utils.tensorboard", "wandb": "wandb", "trackio": "trackio"}
HIDES_STEPS = ("tensorboard",)  # what others have logged stays


def check_loggers(names: Sequence[str]) -> None:
    """Raise ValueError for a name that is no logger, and for a logger that is not installed or logged in."""
    for name in names:
        if name not in OPEN:
            raise ValueError(f"unknown logger '{name}'; choose from {', '.join(OPEN)}")
        try:
            package = import_module(PACKAGES[name])
        except ImportError as error:
            missing = f"logger '{name}' is not installed ({error})"
            raise ValueError(f"{missing}; pip install -e '.[{name}]'") from None
        online = name == "wandb" and package.setup().settings.mode == "online"
        if online and not package.login(prompt=False, verify=False):  # it would ask in training
            raise ValueError("logger 'wandb' has no account: run `wandb login`, or set WANDB_MODE=offline")


def metrics_of(record: Record) -> dict[str, int | float]:
    """Return the numbers of a record as `<kind>/<name>`, or `<kind>/<split>/<name>`."""
    prefix = "/".join(record[key] for key in ("kind", "split") if key in record)
    return {
        f"{prefix}/{name}": value
        for name, value in record.items()
        if name not in ("step", "last_step") and isinstance(value, int | float)
    }


class RunLogger:
    """A run in one logger. A failing logger is switched off, and `record` is called with a note of it.

    The last step of each metric there is kept in a file, so that a resumed run continues without repetition.
    """

    def __init__(self, name: str, folder: RunFolder, record: Callable[[Record], None]):
        self.name, self.folder, self._record = name, folder, record
        self._log: Callable[[int, Metrics], None] | None = None
        self._close: Callable[[], None] = lambda: None
        self._start, self._failed = 0, False

    def write(self, record: Record, earlier: Callable[[], Sequence[Record]]) -> None:
        """Log a record, after the `earlier` ones to a logger that opens now, as the run has its name."""
        if self._failed or self.folder.target is not None:
            return
        with self._switched_off_by_errors(_last_step(record)):
            if self._log is None:
                self._log = self._open()
                for each in earlier():
                    self._write(each, self._log)
            self._write(record, self._log)

    def rewind(self, step: int) -> None:
        """Continue after a step: tensorboard hides what it has of later ones, others keep it."""
        self._start = step
        if self.name in HIDES_STEPS:
            self.close()

    def close(self) -> None:
        """Close the logger; another record opens it again."""
        with self._switched_off_by_errors(self._start):
            self._close()
        self._log, self._close = None, lambda: None

    def _open(self) -> Callable[[int, Metrics], None]:
        self._path = self.folder.path / "loggers" / f"{self.name}.json"
        self._path.parent.mkdir(exist_ok=True)
        saved = read_json(self._path) if self._path.exists() else {}
        self._id: str = saved.get("id") or secrets.token_hex(4)
        self._steps: dict[str, int] = saved.get("steps", {})
        self._save()
        log, self._close = OPEN[self.name](self.folder, self._id, self._start if self._steps else None)
        if self.name in HIDES_STEPS:
            self._steps = {name: min(last, self._start) for name, last in self._steps.items()}
        return log

    def _write(self, record: Record, log: Callable[[int, Metrics], None]) -> None:
        step, found = _last_step(record), metrics_of(record)
        metrics = {name: found[name] for name in found if self._steps.get(name, -1) < step}
        if metrics:
            self._steps |= dict.fromkeys(metrics, step)
            self._save()  # before: a kill between the two loses a point rather than repeating it
            log(step, metrics)

    def _save(self) -> None:
        temporary = temporary_path(self._path)
        temporary.write_text(json.dumps({"id": self._id, "steps": self._steps}))
        temporary.replace(self._path)

    @contextmanager
    def _switched_off_by_errors(self, step: int) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # a foreign library may raise anything
            self._failed = True
            reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
            text = f"logger '{self.name}' is switched off: {reason}"
            self._record({"kind": "note", "step": step, "text": text})


def _last_step(record: Record) -> int:
    """Return when a record was written: a test at the end of a run has the step of the weights."""
    return max(record["step"], record.get("last_step", 0))
