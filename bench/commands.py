"""What benchmarks of whole runs share: they call the command line and read the run folders."""

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from isopix.core.command_line import command_line
from isopix.storage import log

ENVIRONMENT = ("device", "threads", "torch", "python", "isopix", "images")


def run_benchmark(
    description: str | None,
    *,
    names: Sequence[str],
    result: Path,
    run: Callable[[Sequence[str], str, Path], None],
    collect: Callable[[Path], dict[str, Any]],
) -> None:
    """Parse the options of a benchmark: `run` what is missing of some recipes, or `collect` the results."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--data")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", choices=sorted(names))
    parser.add_argument("--collect", action="store_true")
    options = parser.parse_args()
    if options.collect:
        result.write_text(json.dumps(collect(options.out), indent=2) + "\n")
        return
    run([options.only] if options.only else names, options.data, options.out)


def train(run: Path, *words: str) -> None:
    """Start or resume a run."""
    started = any(run.glob("checkpoints/step-*"))
    isopix("resume", str(run)) if started else isopix(*words, "--out", str(run))


def run_once(folder: Path, *words: str) -> None:
    """Run a command unless the folder has its results."""
    if not any(folder.glob("*.json")):
        isopix(*words)


def isopix(*words: str) -> None:
    """Run one isopix command."""
    sys.stderr.write(f"$ {command_line(*words)}\n")
    subprocess.run([sys.executable, "-m", "isopix.cli.main", *words], check=True)


def environment(run: Path) -> dict[str, Any]:
    """Return the machine of a run and its numbers of images."""
    found = json.loads((run / "environment.json").read_text())
    return {key: found[key] for key in ENVIRONMENT}


def test_metrics(run: Path) -> dict[str, Any]:
    """Return the last evaluation on the test images."""
    return next(each for each in reversed(log.read_log(run / "log.jsonl")) if each.get("split") == "test")


def images_seen(run: Path) -> int:
    """Return the number of training images processed, with repetition."""
    return max(each["images"] for each in log.read_log(run / "log.jsonl") if each["kind"] == "train")


def finetuning_result(run: Path) -> dict[str, Any]:
    """Return the test accuracy and training length of a fine-tuned run."""
    found = test_metrics(run)
    return {key: found[key] for key in ("accuracy", "images", "step")} | {"images_seen": images_seen(run)}
