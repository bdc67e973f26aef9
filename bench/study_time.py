"""How long a study took: of the whole command, and of the networks of each block and depth.

isopix study inductive-bias --out studies/bias
python bench/study_time.py studies/bias > bench/results/study-tiny-time.json

The command must have run once, in a new folder: its time is from the plan, which is written first, to the
page, which is written last.
"""

import statistics
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

from measure import print_result

from isopix.storage.atomic import read_json
from isopix.studies.inductive_bias.grid import Study
from isopix.studies.trial import TrialResult


def main() -> None:
    """Print the times of the study in a folder."""
    folder = Path(sys.argv[1])
    study = Study.open(folder)
    done = [each for each in study.results().values() if each.status == "done"]
    began = datetime.fromisoformat(read_json(folder / "study.json")["written"]).timestamp()
    print_result(
        "time of a study",
        device=done[0].environment["device"].split(" ")[0],
        scale=study.plan.scale,
        networks=len(done),
        seeds=study.plan.seeds,
        threads_per_network=done[0].environment["threads"],
        precision=done[0].environment["precision"],
        seconds=round((folder / "report.html").stat().st_mtime - began),
        seconds_of_networks=round(sum(map(seconds, done))),
        by_network=by_network(done),
    )


def seconds(result: TrialResult) -> float:
    """Return the time of a network's training and probes."""
    return result.training_seconds + result.probing_seconds


def by_network(done: list[TrialResult]) -> dict[str, dict[str, Any]]:
    """Return the times of the networks of each block and depth, over encodings and seeds."""
    found: dict[str, list[float]] = {}
    for each in done:
        assert each.trial is not None, "finished"
        found.setdefault(f"{each.trial.block} of depth {each.trial.depth}", []).append(seconds(each))
    return {
        name: {
            "n": len(times),
            "mean": round(statistics.mean(times), 1),
            "std": round(statistics.stdev(times), 1) if len(times) > 1 else None,
        }
        for name, times in found.items()
    }


if __name__ == "__main__":
    main()
