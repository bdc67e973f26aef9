"""The commands of the README for one's own folder, on photos of flowers, with several seeds.

python bench/flowers.py --data flowers5 --out runs/flowers              # runs what is missing
python bench/flowers.py --out runs/flowers --collect                        # writes bench/results

Every number comes from run folders; the same command resumes an interrupted benchmark.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cells import RESULTS
from commands import environment, pretraining_results, run_benchmark, run_once, spread, test_metrics, train

RESULT = RESULTS / "flowers5.json"
MODEL = "igpt.tiny-cifar10"
STEPS = "steps=200"


def main() -> None:
    run_benchmark(__doc__, names=[MODEL], result=RESULT, run=run, collect=collect)


def run(names: Sequence[str], seeds: Sequence[int], data: str, out: Path) -> None:
    """Pre-train, probe and fine-tune with each seed."""
    for seed in seeds:
        folder, given = out / f"photos-{seed}", ("--seed", str(seed))
        train(folder, "pretrain", "--from", *names, "--data", data, STEPS, *given)
        run_once(folder / "probes", "probe", str(folder), *given)
        train(out / f"classes-{seed}", "finetune", str(folder), STEPS, *given)


def collect(out: Path) -> dict[str, Any]:
    """Return the numbers of all seeds, and the machine."""
    folders = sorted(out.glob("photos-*"))
    tuned = [test_metrics(out / folder.name.replace("photos", "classes")) for folder in folders]
    probes = [json.loads(next((each / "probes").glob("probe-*.json")).read_text()) for each in folders]
    sources = {"network": [each["network"] for each in probes]}
    sources |= {name: [each["baselines"][name] for each in probes] for name in ("untrained", "raw pixels")}
    accuracies = {
        name: spread([each["layers"][each["best_index"]]["test_accuracy"] for each in found])
        for name, found in sources.items()
    }
    accuracies["fine-tuned"] = spread([each["accuracy"] for each in tuned])
    majority = tuned[0]["measurement"]["baselines"]["majority class"]
    return {
        **environment(folders[0]),
        **pretraining_results(folders),
        "accuracies": accuracies,
        "majority": majority,
    }


if __name__ == "__main__":
    main()
