"""Transfer of small pre-trained networks: linear probes, fine-tuning and low-data error, three seeds each.

python bench/transfer.py --data cifar10 --out runs/transfer              # runs what is missing
python bench/transfer.py --data cifar10 --out runs/transfer --only ar    # one recipe; can run in parallel
python bench/transfer.py --out runs/transfer --collect                   # writes bench/results

Every number comes from run folders; the same command resumes an interrupted benchmark.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from commands import environment, finetuning_result, images_seen, run_benchmark, run_once, test_metrics, train

from isopix.storage import log

RESULT = Path(__file__).parent / "results" / "transfer-cifar10.json"
SIZE = ("data.rows=16", "data.cols=16", "evaluate_images=1000")
GPT = (*SIZE, "steps=1500", "evaluate_every=500")
CONV = (*SIZE, "width=64", "data.limit=null", "steps=1500", "evaluate_every=500")
PRETRAINING = {
    "ar": ("igpt.tiny", GPT),
    "bert": ("igpt.tiny_bert", GPT),
    "conv": ("isotropic.tiny-conv-pix2vec-3", CONV),
}
FINETUNING = ("steps=240", "batch_size=64", "evaluate_every=40", "num_test_images=10000")
# Those of pre-training, also from scratch: a tenth of them, as usual, is too small for so few steps.
LEARNING_RATES = {name: f"lr={lr}" for name, lr in {"ar": 0.003, "bert": 0.003, "conv": 0.01}.items()}
SEEDS = range(3)


def main() -> None:
    """Run what is missing, or collect the results."""
    run_benchmark(__doc__, names=list(PRETRAINING), result=RESULT, run=run, collect=collect)


def run(names: Sequence[str], data: str, out: Path) -> None:
    """Run these recipes, seed by seed."""
    for seed in SEEDS:
        for name in names:
            measure(name, seed, data=data, out=out)


def measure(name: str, seed: int, *, data: str, out: Path) -> None:
    """Pre-train, probe, fine-tune and train from scratch; for the first seed, measure low-data error too."""
    recipe, settings = PRETRAINING[name]
    folder, finetuned, scratch = (out / f"{name}-{seed}{suffix}" for suffix in ("", "-finetuned", "-scratch"))
    common = ("--data", data, "--seed", str(seed))
    train(folder, "pretrain", recipe, *settings, *common)
    run_once(folder / "probes", "probe", str(folder), "--limit", "5000", "--concat", "5")
    train(finetuned, "finetune", str(folder), *FINETUNING, LEARNING_RATES[name], *common)
    train(scratch, "finetune", recipe, *settings, *FINETUNING, *common)
    if seed == 0:
        run_once(folder / "low-data", "low-data", str(folder), "--labels", "4", "25", "400", "--subsets", "5")


def collect(out: Path) -> dict[str, Any]:
    """Return the numbers of every recipe by seed, and the machine."""
    done = {name: [out / f"{name}-{seed}" for seed in SEEDS] for name in PRETRAINING}
    found = {name: [numbers(run) for run in runs if finished(run)] for name, runs in done.items()}
    low_data = {name: low_data_results(out / f"{name}-0") for name in PRETRAINING}
    return {**environment(out / f"{next(iter(PRETRAINING))}-0"), "runs": found, "low_data": low_data}


def finished(run: Path) -> bool:
    """Return whether all runs of a seed are finished; the one from scratch is the last."""
    scratch = run.with_name(f"{run.name}-scratch")
    return scratch.is_dir() and any(
        each.get("split") == "test" for each in log.read_log(scratch / "log.jsonl")
    )


def numbers(run: Path) -> dict[str, Any]:
    """Return the numbers of one pre-trained network, its fine-tuned run and the one from scratch."""
    [path] = (run / "probes").glob("*.json")
    probe = json.loads(path.read_text())
    layers, joined = probe["network"]["layers"], probe["network"]["joined"]
    baselines = {
        key: control["layers"][control["best"]]["test"] for key, control in probe["controls"].items()
    }
    return {
        "recipe": json.loads((run / "recipe.json").read_text())["name"],
        "loss_nats": test_metrics(run)["loss_nats"],
        "images_seen": images_seen(run),
        "probe_images": probe["network"]["images"],
        "best_layer": layers[probe["network"]["best"]]["layer"],
        "best_accuracy": layers[probe["network"]["best"]]["test"],
        "last_layer_accuracy": layers[-1]["test"],
        "concat": {"layers": joined["layers"], "accuracy": joined["score"]["test"]},
        "baselines": baselines,
        **{end: finetuning_result(run.with_name(f"{run.name}-{end}")) for end in ("finetuned", "scratch")},
    }


def low_data_results(run: Path) -> dict[str, Any]:
    """Return the errors with few labels."""
    [path] = (run / "low-data").glob("*.json")
    return json.loads(path.read_text())["results"]


if __name__ == "__main__":
    main()
