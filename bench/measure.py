"""What all benchmarks share: repeated timing, its spread, the machine, and the result as one JSON object."""

import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from isopix import __version__
from isopix.core import device as devices


def seconds(call: Callable[[], object], device: torch.device | str = "cpu") -> float:
    """Return the wall-clock time of one call, including queued device work."""
    on = torch.device(device)
    devices.synchronize(on)
    start = time.perf_counter()
    call()
    devices.synchronize(on)
    return time.perf_counter() - start


def spread(values: list[float]) -> dict[str, float | int]:
    """Return the median and range of repeated measurements."""
    return {"n": len(values), "median": statistics.median(values), "min": min(values), "max": max(values)}


def alternate(
    calls: dict[str, Callable[[], object]], *, repeats: int, warmup: int, device: torch.device | str = "cpu"
) -> dict[str, list[float]]:
    """Return the seconds of each call, interleaved (A-B-A-B), so that slowdowns affect all alike."""
    for _ in range(warmup):
        for call in calls.values():
            call()
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(repeats):
        for name, call in calls.items():
            times[name].append(seconds(call, device))
    return times


def compare(task: str, peer: str, isopix: list[float], other: list[float]) -> dict[str, Any]:
    """Return the speedup of isopix over a peer on the same task: the ratio of median seconds."""
    return {
        "task": task,
        "peer": peer,
        "speedup": statistics.median(other) / statistics.median(isopix),
        "n": len(isopix),
        "isopix_seconds": spread(isopix),
        "peer_seconds": spread(other),
    }


def without_folder(word: str) -> str:
    """Return a command-line argument without the folders of this machine."""
    return Path(word).name if Path(word).is_absolute() else word


def print_result(benchmark: str, device: torch.device | str = "cpu", **values: Any) -> None:
    """Print the JSON object of a benchmark."""
    environment = devices.runtime_environment(torch.device(device))
    head = {
        "benchmark": benchmark,
        "isopix": __version__,
        **environment,
        "command": " ".join(["python", *map(without_folder, sys.argv)]),
    }
    print(json.dumps({**head, **values}, indent=2))
