"""Measured steps of 1, 2 and 4 processes of a CPU against the model of `isopix plan --devices`.

    python bench/parallel_model.py --repeats 5          # prints JSON: bench/results/parallel-model-cpu.json

The model is given no training with messages: the step of 2 and of 4 processes that train side by side, each
on its images alone; in one process the copy of a tensor; and in two the all-reduces of a large and of a small
tensor. It predicts the steps of DDP and FSDP. Processes share the cores: one of 4 on 2 cores is assumed to
have half of the bandwidth of one of 2. Computation and messages do not overlap, as gloo runs on the same
cores. In each repeat all conditions take turns.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

import torch
import torch.distributed as dist
from measure import print_result
from speed.timing import spread

from isopix.analysis.cluster import Cluster
from isopix.analysis.parallel_cost import TrainingWork, step_time, update_bytes
from isopix.core.device import available_cores
from isopix.core.random import generator
from isopix.objectives.base import PretrainModel
from isopix.recipes import registry
from isopix.recipes.parallel_plan import training_work
from isopix.recipes.recipe import Recipe
from isopix.train.parallel import OneDevice, Strategy, barrier, process_group
from isopix.train.tasks import PretrainTask, TrainingTask
from isopix.train.train_step import TrainStep

RECIPE = "igpt.digits"
SIZES = ["width=128 batch_size=64", "width=256 batch_size=16", "width=512 batch_size=4"]
SETTINGS = ["depth=4", "precision=fp32"]
RANKS = (1, 2, 4)
STRATEGIES: tuple[Strategy, ...] = ("ddp", "fsdp")
WARM_UP, STEPS = 2, 3
LARGE, SMALL, CALLS = 2**24, 2**4, 10  # numbers of a message; of 4 bytes


def main() -> None:
    """Measure in turn, predict and print; or, as one of several processes, measure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        _work()
        return
    seconds: dict[str, list[float]] = {}
    for _ in range(given.repeats):
        for count in RANKS:
            for name, found in launch(count).items():
                seconds.setdefault(name, []).append(found)
    print_result(
        "the model of parallel steps",
        recipe=RECIPE,
        settings=SETTINGS,
        cores=available_cores(),
        given={name: spread(found) for name, found in seconds.items() if "/" not in name},
        conditions=conditions({name: median(found) for name, found in seconds.items()}, seconds),
    )


def launch(count: int) -> dict[str, float]:
    """Return what so many processes measure, by condition."""
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={count}", __file__, "--worker"],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(__file__).parents[1])},
    )
    (line,) = (each for each in done.stdout.splitlines() if each.startswith("{"))
    return {str(name): float(found) for name, found in json.loads(line).items()}


def conditions(medians: dict[str, float], seconds: dict[str, list[float]]) -> list[dict[str, Any]]:
    """Return each measured step of several processes, with its prediction."""
    rows = []
    for size in SIZES:
        job = training_work(recipe_of(size), recompute=False)
        alone = medians[f"{size}/1/no messages"]
        for count in RANKS[1:]:
            for strategy in STRATEGIES:
                processes = cluster(job, medians[f"{size}/{count}/no messages"], count, medians)
                time_of = step_time(job, strategy, processes, accumulate=1)
                measured = spread(seconds[f"{size}/{count}/{strategy}"])
                rows.append(
                    {
                        "size": size,
                        "ranks": count,
                        "parallel": strategy,
                        "seconds_alone": spread(seconds[f"{size}/1/no messages"]),
                        "seconds_without_messages": spread(seconds[f"{size}/{count}/no messages"]),
                        "seconds": measured,
                        "predicted_seconds": {**time_of._asdict(), "step": time_of.total},
                        "efficiency": alone / measured["median"] / count,
                        "predicted_efficiency": alone / time_of.total / count,
                    }
                )
    return rows


def cluster(job: TrainingWork, side_by_side: float, count: int, medians: dict[str, float]) -> Cluster:
    """Return the processes as the model sees them, from steps side by side and the other measurements."""
    share = min(1.0, available_cores() / count)
    copied = share * 2 * 4 * LARGE / medians["copy"]
    compute = side_by_side - update_bytes(job, "ddp", 1) / copied
    hop = medians["small all-reduce"] / 2  # of two processes: there and back
    bandwidth = 4 * LARGE / (medians["large all-reduce"] - medians["small all-reduce"])
    flops = job.batch_size / count * (job.forward_flops + job.backward_flops) / compute
    return Cluster(
        "process",
        1,
        count,
        flops=flops,
        memory=0,
        memory_bandwidth=copied,
        bandwidth=share * bandwidth,
        hop=hop / share,
        overlaps=False,
    )


def recipe_of(size: str, *settings: str) -> Recipe:
    """Return the recipe of a size."""
    return registry.resolve(RECIPE, assignments=[*SETTINGS, *size.split(), *settings]).recipe


def _work() -> None:
    torch.set_num_threads(1)
    with process_group("cpu"):
        count = dist.get_world_size()
        found = {}
        if count == 1:
            source, target = torch.ones(LARGE), torch.empty(LARGE)
            found["copy"] = _seconds(lambda: target.copy_(source), CALLS)
        if count == 2:
            for name, size in (("large", LARGE), ("small", SMALL)):
                message = torch.ones(size)
                found[f"{name} all-reduce"] = _seconds(lambda tensor=message: dist.all_reduce(tensor), CALLS)
        for size in SIZES:
            with patch("isopix.train.train_step.strategy", _without_messages):
                found[f"{size}/{count}/no messages"] = _step_seconds(size, "ddp")
            for strategy in STRATEGIES if count > 1 else ():
                found[f"{size}/{count}/{strategy}"] = _step_seconds(size, strategy)
        if dist.get_rank() == 0:
            sys.stdout.write(f"{json.dumps(found)}\n")


def _without_messages(task: TrainingTask, *given: object) -> OneDevice:
    """Return a strategy by which each process trains on its own images alone."""
    found = OneDevice(task)
    found.rank, found.num_ranks = dist.get_rank(), dist.get_world_size()
    return found


def _step_seconds(size: str, strategy: Strategy) -> float:
    """Return the median seconds of the steps of a trainer over one batch."""
    recipe = recipe_of(size)
    network = recipe.build(recipe.model.codec.placeholder(recipe.grid))
    task = PretrainTask(PretrainModel(network, recipe.objective))
    step = TrainStep(
        task,
        recipe.train.optimizer,
        accumulate=1,
        precision=recipe.train.gpu_precision,
        compiled=False,
        parallel=strategy,
    )
    shape = (recipe.train.batch_size, 3, recipe.grid.rows, recipe.grid.cols)
    images = torch.randint(256, shape, generator=generator(0, "images"), dtype=torch.uint8)
    batch = task.make_batch(images, None, generator(0, "mask"))
    for number in range(WARM_UP):
        step(batch, step=number, lr_factor=1.0)
    return _seconds(lambda: step(batch, step=WARM_UP, lr_factor=1.0), STEPS)


def _seconds(call: Callable[[], object], count: int) -> float:
    """Return the median seconds of several calls, each of which all processes begin together."""
    found = []
    for _ in range(count):
        barrier()
        start = time.perf_counter()
        call()
        found.append(time.perf_counter() - start)
    return median(found)


if __name__ == "__main__":
    main()
