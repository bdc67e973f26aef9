"""What training takes, without evaluations and checkpoints: time and memory; and its display."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch

from isopix.core.device import peak_memory_so_far
from isopix.core.progress import ProgressBar
from isopix.core.text import format_duration, format_loss, format_rate

LOSSES = {"total_nats": "total loss", "loss_nats": "loss", "class_nats": "classification loss"}
ACCURACIES = {"accuracy": "accuracy", "knn_accuracy": "k-NN accuracy", "probe_accuracy": "linear probe"}


class Throughput:
    """Counts steps of `batch_size` images, and the time that they take."""

    def __init__(self, batch_size: int, device: torch.device):
        self.batch_size, self.device = batch_size, device
        self.steps, self.seconds = 0, 0.0
        self.since = time.perf_counter()

    @contextmanager
    def exclude(self) -> Iterator[None]:
        before = time.perf_counter()
        yield
        self.since += time.perf_counter() - before

    def record(self, step: int, losses: Mapping[str, float], learning_rate: float) -> dict[str, Any]:
        """Return the log record of training at `step`, and restart the clock."""
        now = time.perf_counter()
        rate = self.steps * self.batch_size / max(now - self.since, 1e-9)
        self.seconds += now - self.since
        self.steps, self.since = 0, now
        return {
            "kind": "train",
            "step": step,
            "images": step * self.batch_size,
            **losses,
            "learning_rate": learning_rate,
            "images_per_second": rate,
            "seconds": self.seconds,
            "peak_memory_bytes": peak_memory_so_far(self.device),
        }


class TrainingDisplay:
    """Shows log records; `flops` per image and the devices' `peak` FLOP/s, if known, give MFU."""

    def __init__(self, bar: ProgressBar, title: str, steps: int, *, flops: int, peak: float | None):
        self.bar, self.steps, self.flops, self.peak = bar, steps, flops, peak
        self.shown, self.last = 0.0, ""
        bar.say(title)

    def show(self, record: dict[str, Any]) -> None:
        """Show a record; training lines replace one another on a bar, all others stay."""
        if record["kind"] == "train":
            self._training(record)
        elif record["kind"] == "evaluation":
            self.bar.say(f"step {record['step']}  {record['split']} {_metrics(record)}{_count(record)}")
        elif record["kind"] == "baselines":
            losses = ", ".join(f"{name} {format_loss(nats)}" for name, nats in record["nats"].items())
            self.bar.say(f"baselines on {record['images']:,} {record['held_out']} images: {losses} nats")
        elif record["kind"] in ("note", "measurement"):
            self.bar.say(record["text"])

    def close(self) -> None:
        self.bar.close()
        if self.bar.live and self.last:
            self.bar.say(self.last)

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
        step = f"step {record['step']}/{self.steps}"
        text = f"{losses}  {format_rate(speed)} img/s{mfu}  eta {format_duration(eta)}"
        self.bar.show(step, record["step"], self.steps, text)
        self.last = f"{step}  {text}"


def _metrics(record: dict[str, Any]) -> str:
    losses = [f"{title} {format_loss(record[name])} nats" for name, title in LOSSES.items() if name in record]
    accuracies = [f"{title} {record[name]:.1%}" for name, title in ACCURACIES.items() if name in record]
    return "  ".join([*losses, *accuracies])


def _count(record: dict[str, Any]) -> str:
    used, available = record.get("images"), record.get("available_images")
    if used is None:
        return ""
    return f"  ({used:,} images)" if available in (None, used) else f"  ({used:,} of {available:,} images)"
