"""Copies the numbers of a run folder or a study to `bench/results`, for the tables of the docs.

python bench/collect.py runs/ar cifar10-tiny-ar
python bench/collect.py studies/bias study-tiny
"""

import json
import sys
from pathlib import Path
from typing import Any

from isopix.reporting.run_reader import read_run
from isopix.storage import log
from isopix.storage.atomic import read_json
from isopix.storage.run_folder import RunFolder

RESULTS = Path(__file__).parent / "results"
ENVIRONMENT = ("device", "threads", "torch", "python", "isopix")
TRIAL = (
    *("block", "encoding", "depth", "seed", "learning_rate", "loss", "best_layer"),
    *("test_accuracies", "validation_accuracies", "test_accuracy", "untrained", "untrained_best_layer"),
    *("raw_pixels", "images", "measurements", "training_seconds", "probing_seconds"),
)


def main() -> None:
    """Write `bench/results/NAME.json` from a run folder and its primary probe, or from a study."""
    folder, name = Path(sys.argv[1]), sys.argv[2]
    found = study(folder) if (folder / "study.json").is_file() else numbers(folder)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(found, indent=2) + "\n")


def study(folder: Path) -> dict[str, Any]:
    """Return the claims and trials of a study, and its environment."""
    plan, claims, trials = (read_json(folder / f"{each}.json") for each in ("study", "claims", "trials"))
    done = [{key: each[key] for key in TRIAL} for each in trials["trials"] if each["state"] == "done"]
    first = next(each["run"] for each in trials["trials"] if each["run"])
    environment = read_json(folder / "trials" / first / "environment.json")
    return {
        "scale": plan["scale"],
        "seeds": plan["seeds"],
        "settings": plan["settings"],
        **{key: environment[key] for key in ENVIRONMENT},
        "num_unfinished": len(trials["trials"]) - len(done),
        "claims": claims["claims"],
        "trials": done,
    }


def numbers(run: Path) -> dict[str, Any]:
    """Return the numbers of the tables, and the recipe to reproduce them."""
    records = log.read_log(run / "log.jsonl")
    training = [record for record in records if record["kind"] == "train"]
    losses = [record for record in records if record["kind"] == "evaluation"]
    environment = json.loads((run / "environment.json").read_text())
    probe = read_run(RunFolder.open(run)).probe
    recipe = json.loads((run / "recipe.json").read_text())
    recipe["data"]["source"] = Path(recipe["data"]["source"]).name
    return {
        "recipe": recipe,
        **{key: environment[key] for key in ENVIRONMENT},
        "images_seen": training[-1]["images"],
        "training_seconds": training[-1]["seconds"],
        "untrained_loss_nats": losses[0]["loss_nats"],
        "test_loss_nats": next(record["loss_nats"] for record in losses if record["split"] == "test"),
        "test_images": next(record["images"] for record in losses if record["split"] == "test"),
        "probe": None if probe is None else probe.to_dict() | {"command": None, "folder": None},
    }


if __name__ == "__main__":
    main()
