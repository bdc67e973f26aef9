"""Training progress: one live line on a terminal, a plain line every few seconds elsewhere."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.progress import BarColumn, Progress, TextColumn

from isopix.cli.console import console, error_console, say
from isopix.core import ranks
from isopix.display.formats import format_duration, format_loss, format_rate
from isopix.display.long_steps import INTERVAL, LongStep

LOSSES = {"total_nats": "total loss", "loss_nats": "loss", "class_nats": "classification loss"}
ACCURACIES = {"accuracy": "accuracy", "knn_accuracy": "k-NN accuracy", "probe_accuracy": "linear probe"}


class TrainingLine:
    """Display of log records; `flops` per image and the device's `peak` FLOP/s, if known, give MFU."""

    def __init__(self, steps: int, *, flops: int, peak: float | None):
        self.steps, self.flops, self.peak = steps, flops, peak
        self.bar = Progress(
            TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[text]}"), console=console
        )
        self.task = self.bar.add_task("", total=steps, text="")
        self.last_printed = 0.0

    def __enter__(self) -> "TrainingLine":
        if console.is_terminal:
            self.bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self.bar.live.is_started:
            self.bar.stop()

    def show(self, record: dict[str, Any]) -> None:
        """Display a record; training lines replace one another on a terminal, all others stay."""
        if record["kind"] == "train":
            self._training(record)
        elif record["kind"] == "evaluation":
            say(f"step {record['step']}  {record['split']} {_metrics(record)}{_count(record)}")
        elif record["kind"] == "baselines":
            losses = ", ".join(f"{name} {format_loss(nats)}" for name, nats in record["nats"].items())
            say(f"baselines on {record['images']:,} {record['held_out']} images: {losses} nats")
        else:
            say(record["text"])

    def _training(self, record: dict[str, Any]) -> None:
        speed = record["images_per_second"]
        eta = (self.steps - record["step"]) * record["images"] / record["step"] / max(speed, 1e-9)
        mfu = "" if self.peak is None else f"  MFU {speed * self.flops / self.peak:.1%}"
        step = f"step {record['step']}/{self.steps}"
        losses = "  ".join(
            f"{title} {format_loss(record[name])}" for name, title in LOSSES.items() if name in record
        )
        text = f"{losses}  {format_rate(speed)} img/s{mfu}  eta {format_duration(eta)}"
        if console.is_terminal:
            self.bar.update(self.task, completed=record["step"], description=step, text=text)
        elif time.monotonic() - self.last_printed > INTERVAL or record["step"] == self.steps:
            self.last_printed = time.monotonic()
            say(f"{step}  {text}")


def _metrics(record: dict[str, Any]) -> str:
    losses = [f"{title} {format_loss(record[name])} nats" for name, title in LOSSES.items() if name in record]
    accuracies = [f"{title} {record[name]:.1%}" for name, title in ACCURACIES.items() if name in record]
    return "  ".join([*losses, *accuracies])


def _count(record: dict[str, Any]) -> str:
    """The images of an evaluation, if it had any."""
    used, available = record.get("images"), record.get("available_images")
    if used is None:
        return ""
    return f"  ({used:,} images)" if available in (None, used) else f"  ({used:,} of {available:,} images)"


@contextmanager
def progress_bar(description: str) -> Iterator[Callable[[int, int], None]]:
    """Show the progress of a function, by the first of several processes; yield a function that takes the
    number of items done and the total.
    """
    if ranks.rank() > 0:
        yield lambda count, total: None
        return
    step = LongStep((console, error_console), description, None)
    try:
        yield step.show
    finally:
        step.close()
