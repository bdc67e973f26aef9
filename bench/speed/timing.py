"""Times of alternatives: interleaved, so that slowdowns affect all of them, with warm-up and spread."""

import ctypes
import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch
from speed.numerics import NumericsError

from isopix.core.device import Precision, free_cached_memory, native_precision, synchronize
from isopix.core.random import generator

MIN_SECONDS = 0.1  # of one measurement: shorter calls are repeated within it
MIN_REPEATS = 3
MATMUL_ROWS = {"cpu": 2048, "cuda": 65536}
DTYPES: dict[Precision, torch.dtype] = {"fp32": torch.float32, "bf16": torch.bfloat16}


@dataclass(frozen=True, kw_only=True)
class Work:
    """A call that does the work for `items` items, and the check of what its first call returns, which is a
    warm-up; long work that was checked before needs none. An `optional` alternative, such as a compiled one,
    is left out where the check fails.
    """

    call: Callable[[], object]
    items: int = 1
    check: Callable[[object], object] = lambda result: None
    warm_up: bool = True
    optional: bool = False


class Times(NamedTuple):
    """Seconds per item of each repeat, and the seconds of the first call, which may compile."""

    seconds: list[float]
    first_call: float = 0.0

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    def to_dict(self) -> dict[str, float | int]:
        """Return the number of repeats, the median and the range, and the seconds of the first call."""
        return {**spread(self.seconds), "first_call": self.first_call}


def peak_memory(device: torch.device, call: Callable[[], object]) -> int | None:
    """Return the bytes of a call at its peak: of tensors on a GPU, of resident pages on Linux, else None."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        call()
        torch.cuda.synchronize(device)
        return int(torch.cuda.max_memory_allocated(device)) - before
    if not (clear := Path("/proc/self/clear_refs")).exists():
        return None
    ctypes.CDLL(None).malloc_trim(0)  # pages of freed memory are not held
    clear.write_text("5")  # resets the peak (proc_pid_clear_refs(5))
    held = status_bytes("VmRSS")
    call()
    return status_bytes("VmHWM") - held


def status_bytes(name: str) -> int:
    """Return VmRSS or VmHWM of this process. The peak of getrusage starts with that of the parent process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))


Sides = Mapping[str, Mapping[str, Work]]  # alternatives, such as eager and compiled, by side and name
SideTimes = dict[str, dict[str, Times]]


class Timed(NamedTuple):
    """The times of all alternatives that worked, and the errors of the others."""

    times: SideTimes
    errors: dict[str, str]


@dataclass(frozen=True)
class Stopwatch:
    """Measures on a device: `repeats` times, or fewer, but at least three times, after `max_seconds`."""

    device: torch.device
    repeats: int = 5
    max_seconds: float = 600.0

    @property
    def precision(self) -> Precision:
        return native_precision(self.device)

    @property
    def precisions(self) -> tuple[Precision, ...]:
        """What is tried where either may be the faster one: fp32, and bf16 unless it would be emulated."""
        return ("fp32", "bf16") if self.precision == "bf16" else ("fp32",)

    def alternate(self, sides: Sides) -> Timed:
        """Return the seconds per item of each alternative, measured in turn (A-B-A-B).

        The first call of each is a warm-up, whose result is checked; an alternative that fails there, for
        lack of memory, is left out. Raises RuntimeError if none of a side works, and what a check raises of
        an alternative that is not optional.
        """
        first, errors = self._warm_up(sides)
        works = {key: work for key, work in _flat(sides) if key in first}
        calls = dict.fromkeys(works, 1)
        seconds: dict[tuple[str, str], list[float]] = {key: [] for key in works}
        start = time.perf_counter()
        for repeat in range(self.repeats):
            if repeat >= min(MIN_REPEATS, self.repeats) and time.perf_counter() - start > self.max_seconds:
                break
            for key, work in works.items():
                took = self.seconds(work.call, calls[key])
                if repeat == 0 and took < MIN_SECONDS:
                    calls[key] = math.ceil(MIN_SECONDS / max(took, 1e-6))
                    took = self.seconds(work.call, calls[key])
                seconds[key].append(took / work.items)
        times: SideTimes = {side: {} for side in sides}
        for (side, name), values in seconds.items():
            times[side][name] = Times(values, first[side, name])
        return Timed(times, errors)

    def seconds(self, call: Callable[[], object], calls: int = 1) -> float:
        """Return the seconds of one call, averaged over several, including queued work of the device."""
        synchronize(self.device)
        start = time.perf_counter()
        for _ in range(calls):
            call()
        synchronize(self.device)
        return (time.perf_counter() - start) / calls

    def matmul_rate(self, width: int) -> float:
        """Return the FLOP/s of products of random [rows x D] and [D x 4D] matrices in `precision`."""
        rows, kind = MATMUL_ROWS.get(self.device.type, 2048), DTYPES[self.precision]
        left, right = (
            torch.randn(shape, generator=generator(0, "bench")).to(self.device, kind)
            for shape in ((rows, width), (width, 4 * width))
        )
        timed = self.alternate({"product": {"": Work(call=lambda: left @ right)}})
        return 2 * rows * width * 4 * width / timed.times["product"][""].median

    def _warm_up(self, sides: Sides) -> tuple[dict[tuple[str, str], float], dict[str, str]]:
        """Return the seconds of the first calls, and the errors of those that failed."""
        first: dict[tuple[str, str], float] = {}
        errors: dict[str, str] = {}
        for (side, name), work in _flat(sides):
            if not work.warm_up:
                first[side, name] = 0.0
                continue
            try:
                start = time.perf_counter()
                result = work.call()
                synchronize(self.device)
                took = time.perf_counter() - start
                work.check(result)
                first[side, name] = took
            except RuntimeError as error:
                if isinstance(error, NumericsError) and not work.optional:
                    raise
                errors[f"{side}, {name}"] = first_line(error)
                free_cached_memory(self.device)
        for side in sides:
            if not any(key[0] == side for key in first):
                reasons = {reason: None for name, reason in errors.items() if name.startswith(f"{side}, ")}
                raise RuntimeError(f"{side}: {'; '.join(reasons)}")
        return first, errors


def spread(values: list[float]) -> dict[str, float | int]:
    return {"n": len(values), "median": statistics.median(values), "min": min(values), "max": max(values)}


def first_line(error: BaseException) -> str:
    """Return the type of an error and the first line of its message, since those of compilers have many."""
    return f"{type(error).__name__}: {next(iter(str(error).strip().splitlines()), '')}"


def _flat(sides: Sides) -> Iterator[tuple[tuple[str, str], Work]]:
    return (((side, name), work) for side, works in sides.items() for name, work in works.items())
