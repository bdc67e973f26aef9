"""How long a study took: of the whole command, and of the networks of each block and depth.

isopix study inductive-bias --out studies/bias
python bench/study_time.py studies/bias > bench/results/study-tiny-time.json

The command must have run once on this machine's CPU, in a new folder: its time is from the plan, which is
written first, to the page, which is written last.
"""

import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import torch
from measure import print_result

from isopix.core import device as devices
from isopix.storage.atomic import read_json
from isopix.studies.inductive_bias.figures import mean_std
from isopix.studies.inductive_bias.grid import Study
from isopix.studies.inductive_bias.results import TrialResult


def main() -> None:
    """Print the times of the study in a folder."""
    folder = Path(sys.argv[1])
    study = Study.open(folder)
    done = [each for each in study.results().values() if each.status == "done"]
    began = datetime.fromisoformat(read_json(folder / "study.json")["written"]).timestamp()
    ran_on = done[0].environment
    if ran_on["device"] != devices.runtime_environment(torch.device("cpu"))["device"]:
        raise SystemExit(f"the study ran on {ran_on['device']}, not on this machine")
    if min(file.stat().st_mtime for file in (folder / "results").glob("*.json")) < began:
        raise SystemExit(f"{folder} was resumed, so that its time is not known")
    print_result(
        "time of a study",
        scale=study.plan.scale,
        networks=len(done),
        seeds=study.plan.seeds,
        threads_per_network=ran_on["threads"],
        precision=ran_on["precision"],
        seconds=round((folder / "report.html").stat().st_mtime - began),
        seconds_of_networks=round(sum(each.seconds for each in done)),
        by_network=by_network(done),
    )


def by_network(done: list[TrialResult]) -> dict[str, dict[str, Any]]:
    """Return the times of the networks of each block and depth, over encodings and seeds."""
    found: dict[str, list[float]] = {}
    for each in done:
        assert each.trial is not None, "finished"
        found.setdefault(f"{each.trial.block} of depth {each.trial.depth}", []).append(each.seconds)
    spreads = {name: mean_std(times) for name, times in found.items()}
    return {
        name: {"n": len(found[name]), "mean": round(each.mean, 1), "std": round(each.std, 1)}
        for name, each in spreads.items()
    }


if __name__ == "__main__":
    main()
