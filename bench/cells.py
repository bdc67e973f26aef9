"""Files of `bench/results`, and the formats of their numbers in tables."""

import json
import statistics
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"


def read(name: str) -> Any:
    """Read a file of `bench/results`."""
    return json.loads((RESULTS / name).read_text())


def threads(found: dict[str, Any]) -> str:
    """Format the number of threads: `1 thread`, `2 threads`."""
    return f"{found['threads']} thread{'s' * (found['threads'] != 1)}"


def mean_std(values: list[float]) -> str:
    """Format the mean and standard deviation: `41.2% ± 0.6%`; the mean alone of a single value."""
    std = f" ± {statistics.stdev(values):.1%}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.1%}{std}"
