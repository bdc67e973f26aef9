"""Copies the numbers of a run folder or a study to `bench/results`, for the tables of the docs.

python bench/collect.py runs/ar cifar10-tiny-ar
python bench/collect.py studies/bias study-tiny

A study is copied as a folder, from which `isopix reproduce isotropic.study --out FOLDER` resumes, without its
run folders.
"""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

from cells import RESULTS
from commands import test_metrics, training_totals

from isopix.storage import log
from isopix.storage.atomic import read_json, write_json

ENVIRONMENT = ("device", "threads", "torch", "python", "isopix")
PLACES = ("folder", "command")


def main() -> None:
    """Write `bench/results/NAME.json` from a run folder and its primary probe, or a study's folder."""
    folder, name = Path(sys.argv[1]), sys.argv[2]
    if (folder / "study.json").is_file():
        copy_study(folder, RESULTS / name)
        return
    found = numbers(folder)
    (RESULTS / f"{name}.json").write_text(json.dumps(found, indent=2) + "\n")


def copy_study(folder: Path, out: Path) -> None:
    """Copy the plan and the results of finished trials, without the places where they were made."""
    plan = {key: each for key, each in read_json(folder / "study.json").items() if key not in PLACES}
    plan["data"] = None if plan["data"] is None else Path(plan["data"]).name
    (out / "results").mkdir(parents=True, exist_ok=True)
    write_json(out / "study.json", plan)
    for found in sorted((folder / "results").glob("*.json")):
        values = read_json(found)
        if values["status"] == "done":
            (out / "results" / found.name).write_text(json.dumps(values, separators=(",", ":")) + "\n")
    for found in sorted((folder / "results").glob("*.npz")):
        shutil.copyfile(found, out / "results" / found.name)


def numbers(run: Path) -> dict[str, Any]:
    """Return the numbers of the tables, and the recipe to reproduce them."""
    losses = [each for each in log.read_log(run / "log.jsonl") if each["kind"] == "evaluation"]
    environment = json.loads((run / "environment.json").read_text())
    probes = sorted((run / "probes").glob("probe-*.json"))
    recipe = json.loads((run / "recipe.json").read_text())
    recipe["data"]["source"] = Path(recipe["data"]["source"]).name
    return {
        "recipe": recipe,
        **{key: environment[key] for key in ENVIRONMENT},
        **training_totals(run),
        "untrained_loss_nats": losses[0]["loss_nats"],
        "test_loss_nats": test_metrics(run)["loss_nats"],
        "test_images": test_metrics(run)["images"],
        "probe": read_json(probes[-1]) | {"call": None} if probes else None,
    }


if __name__ == "__main__":
    main()
