"""What small networks know after pre-training: probes, fine-tuning, few labels; of three seeds each.

python bench/transfer.py --data cifar10 --out runs/transfer              # trains and measures what is missing
python bench/transfer.py --data cifar10 --out runs/transfer --only ar    # one recipe; several may run at once
python bench/transfer.py --out runs/transfer --collect                   # keeps the numbers in bench/results

Every number comes from run folders that `isopix` made; an interrupted call goes on where it was.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from commands import environment, once, seen, serve, tested, trained, tuned

from isopix.storage import log

RESULT = Path(__file__).parent / "results" / "transfer-cifar10.json"
SIDE = ("data.rows=16", "data.cols=16", "evaluate_images=1000")
GPT = (*SIDE, "steps=1500", "evaluate_every=500")
CONV = (*SIDE, "width=64", "data.limit=null", "steps=1500", "evaluate_every=500")
PRETRAINING = {
    "ar": ("igpt.tiny", GPT),
    "bert": ("igpt.tiny_bert", GPT),
    "conv": ("isotropic.tiny-conv-pix2vec-3", CONV),
}
TUNING = ("steps=240", "batch=64", "evaluate_every=40", "test_images=10000")
# Pre-training's own: in so few steps the usual tenth of it gets nowhere; from scratch it is the same one.
RATES = {
    name: f"optimiser.learning_rate={rate}"
    for name, rate in {"ar": 0.003, "bert": 0.003, "conv": 0.01}.items()
}
SEEDS = range(3)


def main() -> None:
    """Make what is missing, or collect what is there."""
    serve(__doc__, names=list(PRETRAINING), result=RESULT, make=make, collected=collected)


def make(names: Sequence[str], data: str, out: Path) -> None:
    """All of these recipes, seed by seed."""
    for seed in SEEDS:
        for name in names:
            measure(name, seed, data=data, out=out)


def measure(name: str, seed: int, *, data: str, out: Path) -> None:
    """Pre-train, probe, fine-tune, train from scratch; with the first seed, few labels too."""
    recipe, settings = PRETRAINING[name]
    run, tuned, scratch = (out / f"{name}-{seed}{suffix}" for suffix in ("", "-tuned", "-scratch"))
    common = ("--data", data, "--seed", str(seed))
    trained(run, "pretrain", recipe, *settings, *common)
    once(run / "probes", "probe", str(run), "--limit", "5000", "--layers", "best5")
    trained(tuned, "finetune", str(run), *TUNING, RATES[name], *common)
    trained(scratch, "finetune", recipe, *settings, *TUNING, *common)
    if seed == 0:
        once(run / "lowdata", "lowdata", str(run), "--labels", "4", "25", "400", "--subsets", "5")


def collected(out: Path) -> dict[str, Any]:
    """The numbers of every recipe, by seed, and on what machine they were made."""
    done = {name: [out / f"{name}-{seed}" for seed in SEEDS] for name in PRETRAINING}
    found = {name: [numbers(run) for run in runs if finished(run)] for name, runs in done.items()}
    few = {name: lowdata(out / f"{name}-0") for name in PRETRAINING}
    return {**environment(out / f"{next(iter(PRETRAINING))}-0"), "runs": found, "few_labels": few}


def finished(run: Path) -> bool:
    """Whether all of a seed is there; the network from scratch is the last."""
    scratch = run.with_name(f"{run.name}-scratch")
    return scratch.is_dir() and any(each.get("split") == "test" for each in log.read(scratch / "log.jsonl"))


def numbers(run: Path) -> dict[str, Any]:
    """Of one pre-trained network and what was made of it."""
    [path] = (run / "probes").glob("*.json")
    probe = json.loads(path.read_text())
    network, layers, concat = probe["network"], probe["network"]["layers"], probe["network"]["concat"]
    best = {key: each["layers"][each["best_index"]] for key, each in probe["baselines"].items()}
    return {
        "recipe": json.loads((run / "recipe.json").read_text())["name"],
        "loss_nats": tested(run)["loss_nats"],
        "images_seen": seen(run),
        "probe_images": network["num_images"],
        "best_layer": layers[network["best_index"]]["layer"],
        "best": layers[network["best_index"]]["test_accuracy"],
        "last": layers[-1]["test_accuracy"],
        "concat": {"layers": concat["layers"], "accuracy": concat["score"]["test_accuracy"]},
        "baselines": {key: score["test_accuracy"] for key, score in best.items()},
        **{end: tuned(run.with_name(f"{run.name}-{end}")) for end in ("tuned", "scratch")},
    }


def lowdata(run: Path) -> dict[str, Any]:
    """The results of few labels."""
    [path] = (run / "lowdata").glob("*.json")
    return json.loads(path.read_text())["results"]


if __name__ == "__main__":
    main()
