"""Copies the plan, the results of finished trials and the report of a study to `bench/results`; of a scaling
study, also its laws to the package; of `claims`, the records and logs of its runs, without weights.

python bench/collect.py studies/bias study-tiny
python bench/collect.py results/claims claims

The copy, from which the command of the study resumes, names no folders of this machine.
"""

import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path

from cells import RESULTS
from ship_model import ABSOLUTE

from isopix.storage.atomic import is_temporary, read_json, write_json
from isopix.studies.papers.protocol import STUDIES
from isopix.studies.scaling.best_size import LAW
from isopix.studies.scaling.results import ScalingResult
from isopix.studies.scaling.study import ScalingStudy

PLACES = ("folder", "command")
LEFT_OUT = {"checkpoints", "best", "history"}  # folders of weights, and of probes in training


def main() -> None:
    folder, out = Path(sys.argv[1]), RESULTS / sys.argv[2]
    if (folder / "runs").is_dir():
        copy_runs(folder, out)
    else:
        copy_study(folder, out)


def copy_runs(folder: Path, out: Path) -> None:
    for found in sorted(folder.rglob("*")):
        place = found.relative_to(folder)
        left_out = LEFT_OUT & {*place.parts} or any(map(is_temporary, (place, *place.parents)))
        if found.suffix in (".json", ".jsonl", ".settings") and not left_out:
            (out / place).parent.mkdir(parents=True, exist_ok=True)
            (out / place).write_text(ABSOLUTE.sub(r"\1", found.read_text()))


def copy_study(folder: Path, out: Path) -> None:
    [file] = [each.file for each in STUDIES.values() if (folder / each.file).is_file()]
    plan = {key: each for key, each in read_json(folder / file).items() if key not in PLACES}
    plan["data"] = None if plan["data"] is None else Path(plan["data"]).name
    (out / "results").mkdir(parents=True, exist_ok=True)
    write_json(out / file, plan)
    for found in sorted((folder / "results").glob("*.json")):
        values = read_json(found)
        if values["status"] == "done":
            (out / "results" / found.name).write_text(json.dumps(values, separators=(",", ":")) + "\n")
    for found in sorted((folder / "results").glob("*.npz")):
        shutil.copyfile(found, out / "results" / found.name)
    if (folder / "report.json").is_file():
        (out / "report.json").write_text(ABSOLUTE.sub(r"\1", (folder / "report.json").read_text()))
    if file == ScalingStudy.file:
        replace(ScalingResult.read(out / "report.json"), trials={}).saved(LAW)


if __name__ == "__main__":
    main()
