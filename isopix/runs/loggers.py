"""Loggers: destinations of a run's metrics besides its log: TensorBoard, Weights & Biases."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module

from isopix.runs.state import read_environment
from isopix.storage.atomic import read_json
from isopix.storage.run_folder import RunFolder
from isopix.train.trainer import Record

Metrics = Mapping[str, int | float]
Opened = tuple[Callable[[int, Metrics], None], Callable[[], None]]  # logs metrics of a step; closes

PROJECT = "isopix"  # of Weights & Biases, unless WANDB_PROJECT names another


def _tensorboard(folder: RunFolder, run_id: str) -> Opened:
    from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415 - an extra

    writer = SummaryWriter(str(folder.path / "tensorboard"), purge_step=0)  # hides what is logged again

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
        if step >= run.step:  # a resumed run has those before
            run.log(dict(metrics), step=step)

    return log, run.finish


OPEN = {"tensorboard": _tensorboard, "wandb": _wandb}
PACKAGES = {"tensorboard": "torch.utils.tensorboard", "wandb": "wandb"}


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
    series = "/".join(record[key] for key in ("kind", "split", "held_out") if key in record)
    return {
        f"{series}/{name}": value
        for name, value in record.items()
        if name not in ("step", "last_step") and isinstance(value, int | float)
    }


class RunLogger:
    """A run in one logger. A failing logger is switched off, and `record` is called with a note of it."""

    def __init__(self, name: str, folder: RunFolder, record: Callable[[Record], None]):
        self.name, self.folder, self._record = name, folder, record
        self._log: Callable[[int, Metrics], None] | None = None
        self._close: Callable[[], None] = lambda: None
        self._failed, self._step = False, 0

    def write(self, record: Record, all_records: Callable[[], Sequence[Record]]) -> None:
        """Log a record, but all of them to a logger that opens now, as the run has its name."""
        if self._failed or self.folder.target is not None:
            return
        self._step = _last_step(record)
        with self._switched_off_by_errors():
            records: Sequence[Record] = [record]
            if self._log is None:
                run_id = str(read_environment(self.folder).run_id)
                self._log, self._close = OPEN[self.name](self.folder, run_id)
                records = all_records()
            for each in records:
                if metrics := metrics_of(each):
                    self._log(_last_step(each), metrics)

    def close(self) -> None:
        """Close the logger; the next record opens it again."""
        with self._switched_off_by_errors():
            self._close()
        self._log, self._close = None, lambda: None

    @contextmanager
    def _switched_off_by_errors(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # a foreign library may raise anything
            self._failed = True
            reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
            text = f"logger '{self.name}' is switched off: {reason}"
            self._record({"kind": "note", "step": self._step, "text": text})


def _last_step(record: Record) -> int:
    """Return when a record was written: a test at the end of a run has the step of the weights."""
    return max(record["step"], record.get("last_step", 0))
