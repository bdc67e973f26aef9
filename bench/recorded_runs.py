"""Trainings that are recorded in a JSON file, each as it ends; the same command trains the missing ones."""

import argparse
import math
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

from cells import head, without_folder
from commands import call, finished

import isopix
from isopix.recipes.cost import recipe_cost, training_flops
from isopix.recipes.recipe import Recipe
from isopix.storage.atomic import read_json, write_json

FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)  # of a recipe's learning rate, for its tuning
SHARED = ("size=16", "batch_size=64", "evaluate_images=1000", "num_test_images=1000")
TINY = ("size=8", "batch_size=4", "depth=1", "width=32", "evaluate_images=16", "num_test_images=16")


def parser(description: str | None) -> argparse.ArgumentParser:
    found = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    found.add_argument("--data", required=True)
    folder = os.environ.get("ISOPIX_TEST_DATA")
    colors = f"{folder}/openai-kmeans-centers.npy" if folder else None
    found.add_argument("--palette", default=colors, required=not colors, help="file of colors")
    found.add_argument("--out", type=Path, required=True)
    found.add_argument("--seeds", type=int, default=3)
    found.add_argument("--minutes", type=float, default=float("inf"), help="start no run that ends later")
    found.add_argument("--tiny", action="store_true", help="smallest sizes, whose numbers mean nothing")
    return found


class RecordedRuns:
    """The runs in a JSON file by name, with the machine of the first. One that has not ended is in a folder
    beside the file. Raises ValueError for a file of other data or sizes.
    """

    evaluations: ClassVar[int] = 8  # in each run

    def __init__(self, benchmark: str, options: argparse.Namespace, steps: int):
        self.options, self.deadline = options, time.monotonic() + 60 * options.minutes
        self.steps, self.shared = (8, TINY) if options.tiny else (steps, SHARED)
        data, colors = map(without_folder, (options.data, options.palette))
        about = {"data": data, "palette": colors, "shared": [*self.shared]}
        out, date = options.out, datetime.now(UTC).date().isoformat()
        known = read_json(out) if out.is_file() else {**head(benchmark), "date": date, **about, "runs": {}}
        if wrong := [name for name, each in about.items() if known[name] != each]:
            raise ValueError(f"{out} has runs of {wrong[0]} {known[wrong[0]]}, not {about[wrong[0]]}")
        self.found: dict[str, Any] = known

    def run(self, name: str, steps: int, measure: Callable[[Path], dict[str, Any]]) -> dict[str, Any]:
        """Return the record of a run, which is trained if it is not there; exit if that takes too long."""
        runs, out, started = self.found["runs"], self.options.out, time.monotonic()
        if name in runs:
            return dict(runs[name])
        near = (each for each in runs.values() if 4 * each["steps"] >= steps)
        longest = max((each["wall_seconds"] / each["steps"] for each in near), default=0.0)
        if started + longest * steps > self.deadline:
            sys.exit(f"not started: {name}; the same command continues")
        sys.stderr.write(f"{name} ...\n")
        folder = out.with_name(f"{out.stem}-unfinished") / re.sub(r"[^\w.+]+", "-", name)
        found = {"steps": steps, **measure(folder), "wall_seconds": time.monotonic() - started}
        runs[name] = found
        write_json(out, self.found)
        shutil.rmtree(folder, ignore_errors=True)
        return found

    def train(self, folder: Path, recipe: str, *settings: str, seed: int, steps: int) -> dict[str, Any]:
        """Train a recipe with settings, or resume it, and return its numbers."""
        words = [*self.shared, *length(steps, self.evaluations), *settings]
        words += ["--data", self.options.data, "--palette", self.options.palette, "--seed", str(seed)]
        if not finished(folder):
            call("pretrain", recipe, *words, "--out", str(folder))
        run = isopix.Run(folder)
        return {"settings": settings, "seed": seed, **costs(run.recipe), **numbers(run.log)}

    def best_rate(self, base: float, measure: Callable[[float], dict[str, Any]]) -> float:
        """Return the learning rate, of five around `base`, with the lowest last validation loss."""

        def loss(lr: float) -> float:
            try:
                return last(measure(lr)["validation_nats"])
            except subprocess.CalledProcessError as error:
                if error.returncode != 1:
                    raise
                return math.inf  # it diverged

        return min((base * factor for factor in FACTORS), key=loss)


def length(steps: int, evaluations: int) -> tuple[str, str]:
    return f"steps={steps}", f"evaluate_every={max(1, steps // evaluations)}"


def costs(recipe: Recipe) -> dict[str, Any]:
    return {
        "recipe": recipe.name,
        "lr": recipe.train.optimizer.lr,
        "parameters": recipe_cost(recipe).parameters,
        "flops": training_flops(recipe),
    }


def numbers(log: list[dict[str, Any]]) -> dict[str, Any]:
    """Return losses of validation images by step, the test loss, seconds and the peak of memory."""
    trained = [each for each in log if each["kind"] == "train"]
    losses = [each for each in log if each["kind"] == "evaluation"]
    test = [each["loss_nats"] for each in losses if each["split"] == "test"]
    return {
        "validation_nats": {str(e["step"]): e["loss_nats"] for e in losses if e["split"] == "validation"},
        "test_nats": test[-1],
        "seconds": trained[-1]["seconds"],
        "peak_memory_bytes": max(each["peak_memory_bytes"] for each in trained),
    }


def last(losses: dict[str, float]) -> float:
    return losses[max(losses, key=int)]


def of_row(runs: dict[str, Any], row: str) -> list[dict[str, Any]]:
    """Return the runs of a row of a table by seed; of several learning rates, the best on validation."""
    best: dict[int, dict[str, Any]] = {}
    for each in (each for each in runs.values() if each["row"] == row):
        known = best.setdefault(each["seed"], each)
        if last(each["validation_nats"]) < last(known["validation_nats"]):
            best[each["seed"]] = each
    return [best[seed] for seed in sorted(best)]


def crossing(steps: Sequence[float], losses: Sequence[float], target: float) -> float | None:
    """Return where a loss first falls to a target, on lines between evaluations; None if it does not."""
    points = list(zip(steps, losses, strict=True))
    for (x, y), (next_x, next_y) in pairwise(points):
        if next_y <= target < y:
            return x + (next_x - x) * (y - target) / (y - next_y)
    return None
