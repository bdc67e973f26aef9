"""Transfer of small pre-trained networks: linear probes, fine-tuning with 10% of the labels compared with
training from scratch (3 seeds x 5 draws of the labels, paired), and low-data error.

python bench/transfer.py --data cifar10 --out runs/transfer             # runs what is missing
python bench/transfer.py --data cifar10 --out runs/transfer --only ar   # one recipe; --seeds 0: one seed
python bench/transfer.py --out runs/transfer --collect                  # writes bench/results

Every number comes from run folders; the same command resumes an interrupted benchmark. Recipes and
seeds can run in parallel.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cells import RESULTS
from commands import (
    SEEDS,
    environment,
    fine_tune,
    fine_tuning_results,
    finished_seeds,
    pretraining_results,
    run_benchmark,
    run_once,
    train,
)

RESULT = RESULTS / "transfer-cifar10.json"
SIZE = ("data.rows=16", "data.cols=16", "evaluate_images=1000")
GPT = (*SIZE, "steps=1500", "evaluate_every=500")
CONV = (*SIZE, "width=64", "data.limit=null", "steps=1500", "evaluate_every=500")
RECIPES = {
    "ar": ("igpt.tiny", GPT),
    "bert": ("igpt.tiny_bert", GPT),
    "conv": ("isotropic.tiny-conv-pix2vec-3", CONV),
}
FINETUNING = ("steps=240", "batch_size=64", "evaluate_every=40", "num_test_images=10000", "data.limit=null")
# Those of pre-training, also from scratch: a tenth of them, as usual, is too small for so few steps.
LEARNING_RATES = {name: f"lr={lr}" for name, lr in {"ar": 0.003, "bert": 0.003, "conv": 0.01}.items()}
LABELS = "10%"


def main() -> None:
    run_benchmark(__doc__, names=list(RECIPES), result=RESULT, run=run, collect=collect)


def run(names: Sequence[str], seeds: Sequence[int], data: str, out: Path) -> None:
    """Pre-train, probe, fine-tune and train from scratch; for the first seed, measure low-data error too."""
    for seed in seeds:
        for name in names:
            folder, (recipe, settings) = out / f"{name}-{seed}", RECIPES[name]
            train(folder, "pretrain", recipe, *settings, "--data", data, "--seed", str(seed))
            run_once(folder / "probes", "probe", str(folder), "--limit", "5000", "--concat", "5")
            network = [word for word in settings if word.startswith(("data.rows", "data.cols", "width"))]
            words = (*network, "evaluate_images=1000", *FINETUNING, LEARNING_RATES[name])
            fine_tune(folder, recipe, *words, labels=LABELS, data=data, seed=seed)
            if seed == SEEDS[0]:
                counts = ("--labels", "4", "25", "400", "--subsets", "5")
                run_once(folder / "low-data", "probe", str(folder), *counts)


def collect(out: Path) -> dict[str, Any]:
    """Return the numbers of every recipe with a finished seed, and the machine."""
    runs: dict[str, Any] = {}
    for name, (recipe, _) in RECIPES.items():
        folders = [out / f"{name}-{seed}" for seed in finished_seeds(out, name)]
        if folders:
            runs[name] = {
                "recipe": recipe,
                **pretraining_results(folders),
                "probes": list(map(probe_results, folders)),
                **fine_tuning_results(folders),
                "low_data": low_data_results(folders[0]),
                **environment(folders[0]),
            }
    return {"runs": runs}


def probe_results(run: Path) -> dict[str, Any]:
    [path] = (run / "probes").glob("*.json")
    probe = json.loads(path.read_text())
    network = probe["network"]
    best = {name: found["layers"][found["best_index"]] for name, found in probe["baselines"].items()}
    return {
        "num_images": network["num_images"],
        "best": network["layers"][network["best_index"]],
        "last": network["layers"][-1],
        "concat": network["concat"]["score"],
        "baselines": best,
    }


def low_data_results(run: Path) -> dict[str, Any]:
    [path] = (run / "low-data").glob("*.json")
    return json.loads(path.read_text())["results"]


if __name__ == "__main__":
    main()
