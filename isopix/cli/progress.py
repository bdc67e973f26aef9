"""One live line on a terminal, a plain line now and then elsewhere; step, loss, rate and time left."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from isopix.cli.console import console, say

EVERY = 10.0  # seconds between lines where there is no terminal


class TrainingLine:
    """Shows the records of a run as they come; FLOPs an image and the device's peak, where known, give
    MFU.
    """

    def __init__(self, steps: int, *, flops: int, peak: float | None):
        self.steps, self.flops, self.peak = steps, flops, peak
        self.bar = Progress(
            TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[text]}"), console=console
        )
        self.task = self.bar.add_task("", total=steps, text="")
        self.said = 0.0

    def __enter__(self) -> "TrainingLine":
        if console.is_terminal:
            self.bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self.bar.live.is_started:
            self.bar.stop()

    def show(self, record: dict[str, Any]) -> None:
        """Evaluations and notes stay on screen; training lines replace one another."""
        if record["kind"] == "train":
            self._training(record)
        elif record["kind"] == "evaluation":
            say(f"step {record['step']}  {record['split']} {_loss(record)}{_beside(record)}")
        else:
            say(record["text"])

    def _training(self, record: dict[str, Any]) -> None:
        rate = record["images_per_second"]
        left = (self.steps - record["step"]) * record["images"] / record["step"] / max(rate, 1e-9)
        mfu = "" if self.peak is None else f"  MFU {rate * self.flops / self.peak:.1%}"
        step = f"step {record['step']}/{self.steps}"
        text = f"loss {record['loss_nats']:.4f}  {rate:.1f} images/s{mfu}  {clock(left)} left"
        if console.is_terminal:
            self.bar.update(self.task, completed=record["step"], description=step, text=text)
        elif time.monotonic() - self.said > EVERY or record["step"] == self.steps:
            self.said = time.monotonic()
            say(f"{step}  {text}")


def _loss(record: dict[str, Any]) -> str:
    """That of codes; where they are not learnt, that of classes."""
    if "loss_nats" in record:
        return f"loss {record['loss_nats']:.4f} nats"
    return f"loss of classes {record['class_nats']:.4f} nats"


def _beside(record: dict[str, Any]) -> str:
    """The accuracies that an evaluation has."""
    titles = {"accuracy": "accuracy", "knn_accuracy": "k-NN", "probe_accuracy": "probe"}
    return "".join(f"  {title} {record[name]:.1%}" for name, title in titles.items() if name in record)


@contextmanager
def counting(what: str, total: int) -> Iterator[Any]:
    """A bar for `total` things on a terminal, nothing elsewhere; yields a function that takes how many are
    done.
    """
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(what, total=total)
        yield lambda done: bar.update(task, completed=done)


def clock(seconds: int | float) -> str:
    """65 seconds as 1:05, 4000 as 1:06:40, a million as 11.6 days."""
    if seconds >= 2 * 86400:
        return f"{seconds / 86400:,.1f} days"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
