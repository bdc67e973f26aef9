"""Loggers: destinations of a run's metrics besides its log: TensorBoard, Weights & Biases, trackio."""

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from importlib import import_module
from pathlib import Path

from isopix.runs.state import read_environment
from isopix.storage.atomic import read_json, temporary_path
from isopix.storage.run_folder import RunFolder
from isopix.train.trainer import Record

Metrics = Mapping[str, int | float]
Opened = tuple[Callable[[int, Metrics], None], Callable[[], None]]  # logs metrics of a step; closes

PROJECT = "isopix"  # of Weights & Biases, unless WANDB_PROJECT names another, and of trackio


def _tensorboard(folder: RunFolder, run_id: str) -> Opened:
    from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415 - an extra

    writer = SummaryWriter(str(folder.path / "tensorboard"))

    def log(step: int, metrics: Metrics) -> None:
        for name, value in metrics.items():
            writer.add_scalar(name, value, step)
        writer.flush()

    return log, writer.close


def _wandb(folder: RunFolder, run_id: str) -> Opened:
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


def _trackio(folder: RunFolder, run_id: str) -> Opened:
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
    return {
        f"{_series(record)}/{name}": value
        for name, value in record.items()
        if name not in ("step", "last_step") and isinstance(value, int | float)
    }


class RunLogger:
    """A run in one logger. A failing logger is switched off, and `record` is called with a note of it.

    The last step of each kind of record is kept in a file, so that a resumed run repeats and loses none.
    """

    def __init__(self, name: str, folder: RunFolder, record: Callable[[Record], None]):
        self.name, self.folder, self._record = name, folder, record
        self._log: Callable[[int, Metrics], None] | None = None
        self._close: Callable[[], None] = lambda: None
        self._failed = False
        self._last = dict[str, int]()  # the step that was logged last, by series
        self._known = dict[str, int]()  # before a kill or a rollback

    def write(self, record: Record, all_records: Callable[[], Sequence[Record]]) -> None:
        """Log a record, but all of them to a logger that opens now, as the run has its name."""
        if self._failed or self.folder.target is not None:
            return
        with self._switched_off_by_errors(_last_step(record)):
            records: Sequence[Record] = [record]
            if self._log is None:
                self._last = read_json(self._file) if self._file.exists() else {}
                self.rewind()
                run_id = str(read_environment(self.folder).run_id)
                self._log, self._close = OPEN[self.name](self.folder, run_id)
                records = all_records()
            for each in records:
                self._write(each, self._log)

    def rewind(self) -> None:
        """Leave out steps again that were logged."""
        self._known = dict(self._last)

    def close(self) -> None:
        with self._switched_off_by_errors(max(self._last.values(), default=0)):
            self._close()

    @property
    def _file(self) -> Path:
        return self.folder.path / "loggers" / f"{self.name}.json"

    def _write(self, record: Record, log: Callable[[int, Metrics], None]) -> None:
        step, metrics, series = _last_step(record), metrics_of(record), _series(record)
        if metrics and step > self._known.get(series, -1):
            self._last[series] = step
            self._file.parent.mkdir(exist_ok=True)
            temporary = temporary_path(self._file)
            temporary.write_text(json.dumps(self._last))
            temporary.replace(self._file)  # before: a kill between the two loses a point and repeats none
            log(step, metrics)

    @contextmanager
    def _switched_off_by_errors(self, step: int) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # a foreign library may raise anything
            self._failed = True
            reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
            text = f"logger '{self.name}' is switched off: {reason}"
            self._record({"kind": "note", "step": step, "text": text})


def _series(record: Record) -> str:
    return "/".join(record[key] for key in ("kind", "split", "held_out") if key in record)


def _last_step(record: Record) -> int:
    """Return when a record was written: a test at the end of a run has the step of the weights."""
    return max(record["step"], record.get("last_step", 0))
