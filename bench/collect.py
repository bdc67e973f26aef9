"""Keeps the numbers of a run folder under `bench/results`, for the tables of the documentation.

python bench/collect.py runs/ar cifar10-tiny-ar
"""

import json
import sys
from pathlib import Path
from typing import Any

from isopix.report.gather import gather
from isopix.train import log
from isopix.train.run_folder import RunFolder

RESULTS = Path(__file__).parent / "results"


def main() -> None:
    """Write `bench/results/NAME.json` from the run folder and the probe that speaks for it."""
    run, name = Path(sys.argv[1]), sys.argv[2]
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(numbers(run), indent=2) + "\n")


def numbers(run: Path) -> dict[str, Any]:
    """What the tables need, and what it takes to make them again."""
    records = log.read(run / "log.jsonl")
    training = [record for record in records if record["kind"] == "train"]
    losses = [record for record in records if record["kind"] == "evaluation"]
    environment = json.loads((run / "environment.json").read_text())
    probe = gather(RunFolder.open(run)).probe
    kept = ("device", "threads", "torch", "python", "isopix")
    recipe = json.loads((run / "recipe.json").read_text())
    recipe["data"]["source"] = Path(recipe["data"]["source"]).name
    return {
        "recipe": recipe,
        **{key: environment[key] for key in kept},
        "images_seen": training[-1]["images"],
        "training_seconds": training[-1]["seconds"],
        "untrained_loss_nats": losses[0]["loss_nats"],
        "test_loss_nats": next(record["loss_nats"] for record in losses if record["split"] == "test"),
        "test_images": next(record["images"] for record in losses if record["split"] == "test"),
        "probe": None if probe is None else probe | {"command": None, "folder": None},
    }


if __name__ == "__main__":
    main()
