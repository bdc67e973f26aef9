"""What every benchmark shares: repeated timing, its spread, the machine, and one JSON object as the
answer.
"""

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
    """Wall-clock time of one call, queued work included."""
    where = torch.device(device)
    devices.synchronize(where)
    start = time.perf_counter()
    call()
    devices.synchronize(where)
    return time.perf_counter() - start


def spread(values: list[float]) -> dict[str, float | int]:
    """Median and range of repeated measurements."""
    return {"n": len(values), "median": statistics.median(values), "min": min(values), "max": max(values)}


def alternate(
    calls: dict[str, Callable[[], object]], *, repeats: int, warmup: int, device: torch.device | str = "cpu"
) -> dict[str, list[float]]:
    """Seconds of each call, A-B-A-B, so that a machine that slows down slows all of them."""
    for _ in range(warmup):
        for call in calls.values():
            call()
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(repeats):
        for name, call in calls.items():
            times[name].append(seconds(call, device))
    return times


def ratio(what: str, peer: str, ours: list[float], theirs: list[float]) -> dict[str, Any]:
    """How many times longer a named peer takes for the same work, by the medians of seconds."""
    return {
        "what": what,
        "peer": peer,
        "ratio": statistics.median(theirs) / statistics.median(ours),
        "n": len(ours),
        "ours_seconds": spread(ours),
        "their_seconds": spread(theirs),
    }


def named(word: str) -> str:
    """A word of the command line, without the folders of this machine."""
    return Path(word).name if Path(word).is_absolute() else word


def answer(question: str, device: torch.device | str = "cpu", **values: Any) -> None:
    """Print the one JSON object of a benchmark."""
    where = devices.runtime_environment(torch.device(device))
    head = {
        "question": question,
        "isopix": __version__,
        **where,
        "command": " ".join(["python", *map(named, sys.argv)]),
    }
    print(json.dumps({**head, **values}, indent=2))
