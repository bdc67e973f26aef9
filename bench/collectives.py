"""Seconds of the messages of gloo on a CPU: a gather and a reduce-scatter, relative to an all-reduce.

    python bench/collectives.py          # prints JSON: bench/results/collectives-cpu.json

The model of `isopix plan --devices` assumes rings, in which either takes half as long as an all-reduce.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import torch
import torch.distributed as dist
from measure import print_result
from speed.timing import spread

from isopix.train.parallel import barrier, process_group

NUMEL, CALLS = 2**24, 5  # 64 MiB


def main() -> None:
    """Measure and print; or, as one of several processes, measure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        _work()
        return
    found = [(count, launch(count)) for _ in range(given.repeats) for count in (2, 4)]
    rows = [_summary(count, [each for ranks, each in found if ranks == count]) for count in (2, 4)]
    print_result("messages of gloo", bytes=4 * NUMEL, conditions=rows)


def launch(count: int) -> dict[str, float]:
    """Return the median seconds of each message between so many processes."""
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={count}", __file__, "--worker"],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    (line,) = (each for each in done.stdout.splitlines() if each.startswith("{"))
    return {str(name): float(seconds) for name, seconds in json.loads(line).items()}


def _summary(count: int, found: list[dict[str, float]]) -> dict[str, Any]:
    seconds = {name: spread([each[name] for each in found]) for name in found[0]}
    sums = seconds["all-reduce"]["median"]
    halves = {name: 2 * each["median"] / sums for name, each in seconds.items() if name != "all-reduce"}
    return {"ranks": count, "seconds": seconds, "relative_to_half_an_all_reduce": halves}


def _work() -> None:
    torch.set_num_threads(1)
    with process_group("cpu"):
        whole = torch.ones(NUMEL)
        part = torch.ones(NUMEL // dist.get_world_size())
        calls: dict[str, Callable[[], object]] = {
            "all-reduce": lambda: dist.all_reduce(whole),
            "gather": lambda: dist.all_gather_into_tensor(whole, part),
            "reduce-scatter": lambda: dist.reduce_scatter_tensor(part, whole),
        }
        found = {name: _seconds(call) for name, call in calls.items()}
        if dist.get_rank() == 0:
            sys.stdout.write(f"{json.dumps(found)}\n")


def _seconds(call: Callable[[], object]) -> float:
    """Return the median seconds of several calls, each of which all processes begin together."""
    found = []
    for _ in range(CALLS):
        barrier()
        start = time.perf_counter()
        call()
        found.append(time.perf_counter() - start)
    return median(found)


if __name__ == "__main__":
    main()
