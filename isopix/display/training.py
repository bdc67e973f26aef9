"""Progress of training: one bar that changes, or a line every few seconds, and lines that stay."""

import time
from collections.abc import Callable
from typing import Any

from isopix.core import device as devices
from isopix.core import ranks
from isopix.core.device import DeviceLike
from isopix.core.formats import format_duration, format_loss, format_rate
from isopix.display.bars import ProgressBar
from isopix.recipes.cost import recipe_cost
from isopix.recipes.recipe import Recipe
from isopix.train.trainer import Record

LOSSES = {"total_nats": "total loss", "loss_nats": "loss", "class_nats": "classification loss"}
ACCURACIES = {"accuracy": "accuracy", "knn_accuracy": "k-NN accuracy", "probe_accuracy": "linear probe"}


class TrainingLine:
    """Display of log records; `flops` per image and the device's `peak` FLOP/s, if known, give MFU."""

    def __init__(self, bar: ProgressBar, steps: int, *, flops: int, peak: float | None):
        self.bar, self.steps, self.flops, self.peak = bar, steps, flops, peak
        self.shown = 0.0

    def show(self, record: dict[str, Any]) -> None:
        """Display a record; training lines replace one another on a bar, all others stay."""
        if record["kind"] == "train":
            self._training(record)
        elif record["kind"] == "evaluation":
            self.bar.say(f"step {record['step']}  {record['split']} {_metrics(record)}{_count(record)}")
        elif record["kind"] == "baselines":
            losses = ", ".join(f"{name} {format_loss(nats)}" for name, nats in record["nats"].items())
            self.bar.say(f"baselines on {record['images']:,} {record['held_out']} images: {losses} nats")
        else:
            self.bar.say(record["text"])

    def _training(self, record: dict[str, Any]) -> None:
        if time.monotonic() - self.shown < self.bar.interval and record["step"] != self.steps:
            return
        self.shown = time.monotonic()
        speed = record["images_per_second"]
        eta = (self.steps - record["step"]) * record["images"] / record["step"] / max(speed, 1e-9)
        mfu = "" if self.peak is None else f"  MFU {speed * self.flops / self.peak:.1%}"
        names = [name for name in LOSSES if name in record]
        parts = names if len(names) == 1 else [name for name in names if name != "total_nats"]  # 80 columns
        losses = "  ".join(f"{LOSSES[name]} {format_loss(record[name])}" for name in parts)
        text = f"{losses}  {format_rate(speed)} img/s{mfu}  eta {format_duration(eta)}"
        self.bar.show(f"step {record['step']}/{self.steps}", record["step"], self.steps, text)


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


class TrainingDisplay:
    """Shows the records of one training after another, each with a new bar."""

    def __init__(self, device: DeviceLike, open_bar: Callable[[], ProgressBar]):
        self.device, self.open_bar = devices.select_device(device), open_bar
        self.line: TrainingLine | None = None

    def __enter__(self) -> "TrainingDisplay":
        return self

    def __exit__(self, *error: object) -> None:
        if self.line is not None:
            self.line.bar.close()

    def __call__(self, recipe: Recipe, record: Record) -> None:
        """Show a record of a training of this recipe. Raises ValueError for parts that cannot be combined."""
        if record["kind"] == "start":
            self._start(recipe, record["text"])
        elif self.line is not None:
            self.line.show(record)

    def _start(self, recipe: Recipe, text: str) -> None:
        flops = recipe_cost(recipe).training_flops
        self.__exit__()
        peak = devices.peak_flops(self.device, recipe.train.precision_on(self.device))
        peak = peak and peak * ranks.num_ranks()
        bar = self.open_bar()
        bar.say(text)
        self.line = TrainingLine(bar, recipe.train.steps, flops=flops, peak=peak)
