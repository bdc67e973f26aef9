"""Run benchmarks one after the other, and record each with the machine."""

import gc
import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from isopix.benchmarks import (
    attention,
    batches,
    correctness,
    features,
    growth,
    masked_training,
    palettes,
    probe_sweep,
    sampling,
    training,
    visible_patches,
)
from isopix.benchmarks.benchmark import TINY, Benchmark
from isopix.benchmarks.timing import Stopwatch, first_line
from isopix.core.command_line import command_line
from isopix.core.device import runtime_environment
from isopix.core.memory import free_cached_memory
from isopix.core.suggestions import did_you_mean
from isopix.core.version import __version__

# In the order in which they run.
BENCHMARKS: tuple[Benchmark[Any], ...] = (
    *correctness.BENCHMARKS,
    *training.BENCHMARKS,
    *masked_training.BENCHMARKS,
    *attention.BENCHMARKS,
    *sampling.BENCHMARKS,
    *visible_patches.BENCHMARKS,
    *features.BENCHMARKS,
    *training.LARGE,
    *batches.BENCHMARKS,
    *palettes.BENCHMARKS,
    *probe_sweep.BENCHMARKS,
    *growth.BENCHMARKS,
)
REPEATS = {"cpu": 5, "cuda": 10, TINY: 1}
MAX_SECONDS = {"cuda": 10.0}  # of the repeats of a benchmark


@dataclass(frozen=True, kw_only=True)
class BenchmarkPlan:
    """Which benchmarks to run on a device, how often, and in which sizes: those of its type, or tiny ones.

    None is started once `minutes` have passed.
    """

    device: torch.device
    only: Sequence[str] = ()
    repeats: int | None = None
    minutes: float | None = None
    tiny: bool = False

    def __post_init__(self) -> None:
        if self.minutes is not None and not 0 < self.minutes < math.inf:
            raise ValueError(f"minutes is {self.minutes}; allowed: a finite number above 0")

    @property
    def size(self) -> str:
        """The name of the sizes; GPUs other than NVIDIA's have those of a CPU."""
        return TINY if self.tiny else "cuda" if self.device.type == "cuda" else "cpu"

    @property
    def watch(self) -> Stopwatch:
        """What measures the times."""
        repeats = REPEATS[self.size] if self.repeats is None else self.repeats
        return Stopwatch(self.device, repeats, MAX_SECONDS.get(self.size, 600.0))


def select_benchmarks(prefixes: Sequence[str]) -> list[Benchmark[Any]]:
    """Return the benchmarks whose names start with one of the prefixes; all of them for none.

    Raises ValueError for a prefix of no name.
    """
    for prefix in prefixes:
        if not any(each.name.startswith(prefix) for each in BENCHMARKS):
            names = [each.name for each in BENCHMARKS]
            hint = did_you_mean(prefix, [*names, *(name.partition(".")[0] for name in names)])
            raise ValueError(
                f"no benchmark's name starts with '{prefix}'; {hint}benchmarks: {', '.join(names)}"
            )
    return [each for each in BENCHMARKS if not prefixes or each.name.startswith(tuple(prefixes))]


def run_benchmarks(
    plan: BenchmarkPlan, started: Callable[[str], None] = lambda name: None
) -> Iterator[dict[str, Any]]:
    """Yield the record of each benchmark once it is done: its name, work and peer, its `state` (`measured`,
    `skipped` or `failed`), the reason, and what `Benchmark.run` returns.

    Raises ValueError for a prefix of no name.
    """
    begin = time.monotonic()
    for each in select_benchmarks(plan.only):
        reason = each.reason_to_skip(plan.size)
        if reason is None and plan.minutes is not None and time.monotonic() - begin > 60 * plan.minutes:
            reason = f"not started within {plan.minutes:g} minutes"
        about = {"name": each.name, "work": each.work, "peer": each.peer}
        if reason is not None:
            yield {**about, "state": "skipped", "reason": reason}
            continue
        started(each.name)
        yield about | _measured(each, plan)


def _measured(benchmark: Benchmark[Any], plan: BenchmarkPlan) -> dict[str, Any]:
    """Measure one, without what others have compiled or left in memory; an error is its record."""
    torch.compiler.reset()
    gc.collect()
    free_cached_memory(plan.device)
    start = time.monotonic()
    try:
        found = benchmark.run(plan.size, plan.watch)
    except Exception as error:  # the others can still be measured
        return {"state": "failed", "reason": first_line(error)}
    return {"state": "measured", "reason": "", "seconds": time.monotonic() - start, **found}


def machine_record(plan: BenchmarkPlan) -> dict[str, Any]:
    """Return the device, threads, versions and command of a run of benchmarks."""
    words = [Path(word).name if Path(word).is_absolute() else word for word in sys.argv[1:]]
    return {
        "benchmark": "isopix bench",
        "isopix": __version__,
        **runtime_environment(plan.device),
        "precision": plan.watch.precision,
        "size": plan.size,
        "command": command_line(*words),
    }
