"""What training takes, without evaluations and checkpoints: time, memory and energy; and its display."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from isopix.core.device import gpu_uuid, peak_memory_so_far
from isopix.core.progress import ProgressBar
from isopix.core.text import format_duration, format_loss, format_rate

POWERCAP = Path("/sys/class/powercap")  # of Linux; the counters of Intel's and AMD's processors (RAPL)
MICRO, MILLI = 1e-6, 1e-3
LOSSES = {"total_nats": "total loss", "loss_nats": "loss", "class_nats": "classification loss"}
ACCURACIES = {"accuracy": "accuracy", "knn_accuracy": "k-NN accuracy", "probe_accuracy": "linear probe"}

Counter = Callable[[], float]


class Throughput:
    """Counts steps of `batch_size` images, the time that they take, and the joules of `energy`."""

    def __init__(self, batch_size: int, device: torch.device, energy: Counter | None):
        self.batch_size, self.device, self.energy = batch_size, device, energy
        self.steps, self.seconds, self.joules = 0, 0.0, 0.0
        self.since, self.energy_since = self._now()

    @contextmanager
    def exclude(self) -> Iterator[None]:
        time_before, energy_before = self._now()
        yield
        time_after, energy_after = self._now()
        self.since += time_after - time_before
        self.energy_since += energy_after - energy_before

    def record(self, step: int, losses: Mapping[str, float], learning_rate: float) -> dict[str, Any]:
        """Return the log record of training at `step`, and restart the clock."""
        now, energy = self._now()
        rate = self.steps * self.batch_size / max(now - self.since, 1e-9)
        self.seconds += now - self.since
        self.joules += energy - self.energy_since
        self.steps, self.since, self.energy_since = 0, now, energy
        return {
            "kind": "train",
            "step": step,
            "images": step * self.batch_size,
            **losses,
            "learning_rate": learning_rate,
            "images_per_second": rate,
            "seconds": self.seconds,
            "peak_memory_bytes": peak_memory_so_far(self.device),
            **({} if self.energy is None else {"energy_joules": self.joules}),
        }

    def _now(self) -> tuple[float, float]:
        return time.perf_counter(), self.energy() if self.energy else 0.0


def energy_counter(device: torch.device) -> Counter | None:
    """Return a counter of the joules of a device; None where nothing counts them, or it may not be read."""
    if device.type == "cuda":
        return _gpu_counter(device)
    if device.type == "cpu":
        return _cpu_counter(POWERCAP)
    return None


def _gpu_counter(device: torch.device) -> Counter | None:
    try:
        driver = import_module("pynvml")
    except ImportError:
        return None
    try:
        driver.nvmlInit()
        handle = driver.nvmlDeviceGetHandleByUUID(gpu_uuid(device))
        driver.nvmlDeviceGetTotalEnergyConsumption(handle)  # since Volta, and not for parts of a GPU
    except driver.NVMLError:
        return None
    return lambda: MILLI * driver.nvmlDeviceGetTotalEnergyConsumption(handle)


def _cpu_counter(folder: Path) -> Counter | None:
    try:
        zones = sorted(folder.glob("intel-rapl:*"))  # parts of processors are zones too
        packages = [_Package(each) for each in zones if (each / "name").read_text().startswith("package")]
    except (OSError, ValueError):
        return None
    return (lambda: sum(each.joules() for each in packages)) if packages else None


class _Package:
    """The counter of one processor, which begins again at zero after hours or minutes."""

    def __init__(self, zone: Path):
        self.file = zone / "energy_uj"
        self.range = int((zone / "max_energy_range_uj").read_text()) + 1
        self.last, self.total = self._read(), 0

    def joules(self) -> float:
        now = self._read()
        self.total += (now - self.last) % self.range
        self.last = now
        return MICRO * self.total

    def _read(self) -> int:
        return int(self.file.read_text())


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
