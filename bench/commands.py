"""What benchmarks made of whole runs share: the commands that a user types, and what the run folders tell."""

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from isopix.core.command_line import command_line
from isopix.storage import log

KEPT = ("device", "threads", "torch", "python", "isopix", "images")


def serve(
    description: str | None,
    *,
    names: Sequence[str],
    result: Path,
    make: Callable[[Sequence[str], str, Path], None],
    collected: Callable[[Path], dict[str, Any]],
) -> None:
    """The command line of such a benchmark: `make` what is missing of some recipes, or keep what is there."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--data")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", choices=sorted(names))
    parser.add_argument("--collect", action="store_true")
    options = parser.parse_args()
    if options.collect:
        result.write_text(json.dumps(collected(options.out), indent=2) + "\n")
        return
    make([options.only] if options.only else names, options.data, options.out)


def trained(run: Path, *words: str) -> None:
    """Start the run, or go on with it."""
    begun = any(run.glob("checkpoints/step-*"))
    isopix("resume", str(run)) if begun else isopix(*words, "--out", str(run))


def once(folder: Path, *words: str) -> None:
    """Run the command unless its record is there."""
    if not any(folder.glob("*.json")):
        isopix(*words)


def isopix(*words: str) -> None:
    """One command, as a user types it."""
    sys.stderr.write(f"$ {command_line(*words)}\n")
    subprocess.run([sys.executable, "-m", "isopix.cli.main", *words], check=True)


def environment(run: Path) -> dict[str, Any]:
    """On what machine the run was made, and from how many images."""
    found = json.loads((run / "environment.json").read_text())
    return {key: found[key] for key in KEPT}


def tested(run: Path) -> dict[str, Any]:
    """The last evaluation on the test images."""
    return next(each for each in reversed(log.read_log(run / "log.jsonl")) if each.get("split") == "test")


def seen(run: Path) -> int:
    """Images that the run was trained on, with repetition."""
    return max(each["images"] for each in log.read_log(run / "log.jsonl") if each["kind"] == "train")


def tuned(run: Path) -> dict[str, Any]:
    """Of a fine-tuned run: how many of how many test images it answers, and what that took."""
    found = tested(run)
    return {key: found[key] for key in ("accuracy", "images", "best_step")} | {"images_seen": seen(run)}
