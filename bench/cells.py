"""Files of `bench/results`: how scripts print them, and the formats of their numbers in tables."""

import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch

from isopix import __version__
from isopix.core import device as devices

UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))
PEAK_MEMORY = "peak memory, "  # begins the names of its values in a record
RESULTS = Path(__file__).parent / "results"


def read(name: str) -> Any:
    return json.loads((RESULTS / name).read_text())


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = (columns, ["---"] * len(columns), *rows)
    return "".join(f"|{''.join(f' {cell} |' if cell else ' |' for cell in line)}\n" for line in lines)


def threads(found: dict[str, Any]) -> str:
    """Format the number of threads: `1 thread`, `2 threads`."""
    return f"{found['threads']} thread{'s' * (found['threads'] != 1)}"


def format_ratio(ratio: float) -> str:
    """Format a ratio with two significant digits: `0.94×`, `1.3×`, `216×`."""
    return f"{ratio:.2g}×" if ratio < 100 else f"{ratio:.0f}×"


def format_seconds(seconds: float) -> str:
    """Format a time with three digits and its unit: `1.25 ms`."""
    scale, unit = next((each for each in UNITS if seconds >= each[0]), UNITS[-1])
    return f"{seconds / scale:.3g} {unit}"


def recorded_peak_memories(values: dict[str, float | int | None]) -> dict[str, float | int]:
    """Return the peak memories in the values of a record, in bytes by variant; systems that do not count them
    have none.
    """
    return {
        name.removeprefix(PEAK_MEMORY): value
        for name, value in values.items()
        if name.startswith(PEAK_MEMORY) and value is not None
    }


def without_folder(word: str) -> str:
    """Return a command-line argument without the folders of this machine."""
    return Path(word).name if Path(word).is_absolute() else word


def head(benchmark: str, device: torch.device | str = "cpu") -> dict[str, Any]:
    """Return the machine, versions and command of a benchmark."""
    return {
        "benchmark": benchmark,
        "isopix": __version__,
        **devices.runtime_environment(torch.device(device)),
        "command": " ".join(["python", *map(without_folder, sys.argv)]),
    }


def print_result(benchmark: str, device: torch.device | str = "cpu", **values: Any) -> None:
    print(json.dumps({**head(benchmark, device), **values}, indent=2))
