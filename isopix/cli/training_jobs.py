"""Pre-train several recipes side by side, each in a process of its own, with one line or bar for each."""

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from rich.progress import BarColumn, Progress, TextColumn

from isopix.api import training
from isopix.cli.console import console, say
from isopix.core import device as devices
from isopix.core.progress import Lines
from isopix.core.registry import load_plugin
from isopix.core.signals import STOPPED, Interrupted, handle_stop_signals, stop_requested
from isopix.core.text import format_loss
from isopix.storage.run_folder import RunFolder
from isopix.studies.executor import ExecutorObserver, ProcessExecutor, Slot, run_all, slots_on
from isopix.train.trainer import Record

TAIL = 4096  # bytes of a log that have its last line


class TrainingJob(NamedTuple):
    """A recipe with settings to pre-train, or to resume, in a run folder; `steps` is for the display."""

    recipe: str
    settings: tuple[str, ...]
    out: Path
    seed: int
    steps: int
    plugins: tuple[Path, ...] = ()


def train_side_by_side(jobs: Sequence[TrainingJob], device: str, count: int | None = None) -> bool:
    """Train `count` jobs at a time, by default all on a CPU and one per GPU; return whether all are finished,
    and not stopped by a signal.

    Raises RuntimeError if one fails; it has printed why.
    """
    failed: list[str] = []

    def job_ended(job: TrainingJob, reason: str) -> None:
        if reason:
            failed.append(f"{job.recipe} {reason}")

    executor = ProcessExecutor(_train, _slots(device, len(jobs), count), [__name__])
    with stop_requested() as request, _Display(jobs) as display:

        def stop() -> bool:
            display.update()
            return request.signal is not None or bool(failed)

        run_all(jobs, executor, ExecutorObserver(job_ended=job_ended, stop=stop))
        if failed:
            raise RuntimeError(f"{failed[0]}; see the message above")
        return request.signal is None


def _slots(device: str, jobs: int, count: int | None) -> list[Slot]:
    available = devices.list_devices(device)
    default = jobs if available[0].type == "cpu" else len(available)
    return slots_on(device, min(jobs, count or default))


def _train(job: TrainingJob, device: str, threads: int | None) -> None:
    """Train or resume a job; the exit code is 75 after a stop, and 1 after an error of one line."""
    handle_stop_signals()
    if threads is not None:
        torch.set_num_threads(threads)
    try:
        for plugin in job.plugins:
            load_plugin(plugin)
        if RunFolder(job.out).has_checkpoints:
            training.resume(job.out, device=device)
        else:
            training.pretrain(job.recipe, out=job.out, overrides=job.settings, seed=job.seed, device=device)
    except (Interrupted, KeyboardInterrupt):
        sys.exit(STOPPED)
    except (ValueError, RuntimeError, OSError) as error:
        sys.exit(f"isopix: {str(error).partition(chr(10))[0]}")


class _Display:
    """The last training step in the log of each job: bars on a terminal, lines elsewhere."""

    def __init__(self, jobs: Sequence[TrainingJob]):
        self.jobs, self.printed = jobs, time.monotonic()
        self.shown: dict[Path, int] = {}  # the last step of each run that was printed
        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[text]}"))
        self.bars = Progress(*columns, console=console, disable=not console.is_terminal)
        self.tasks = [self.bars.add_task(job.recipe, total=job.steps, text="") for job in jobs]

    def __enter__(self) -> "_Display":
        self.bars.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.update(last=True)
        self.bars.stop()

    def update(self, *, last: bool = False) -> None:
        """Show the steps that the jobs have reached; lines only every few seconds and at the end."""
        prints = not console.is_terminal and (last or time.monotonic() - self.printed > Lines.interval)
        if not (console.is_terminal or prints):
            return
        self.printed = time.monotonic()
        for job, task in zip(self.jobs, self.tasks, strict=True):
            record = _last_training(RunFolder(job.out).log)
            if record is None:
                continue
            text = f"loss {format_loss(record['loss_nats'])}  {record['images_per_second']:,.0f} img/s"
            self.bars.update(task, completed=record["step"], text=text)
            if prints and self.shown.get(job.out) != record["step"]:
                self.shown[job.out] = record["step"]
                say(f"{job.recipe}  step {record['step']}/{job.steps}  {text}")


def _last_training(log: Path) -> Record | None:
    """Return the last training record at the end of a log; None if there is none yet."""
    if not log.is_file():
        return None
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - TAIL))
        lines = file.read().splitlines()[1:]
    records: list[Record] = [json.loads(line) for line in lines if line.startswith(b'{"kind": "train"')]
    return records[-1] if records else None
