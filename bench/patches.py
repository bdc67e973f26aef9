"""Masked patches in ten minutes of pre-training: a tiny PatchFormer and a tiny ViT, fine-tuned with 10 % of
the labels and compared with the same network from scratch, on three random subsets.

python bench/patches.py --data flowers5 --out runs/patches              # runs what is missing
python bench/patches.py --data flowers5 --out runs/patches --only vit   # one recipe; both can run in parallel
python bench/patches.py --out runs/patches --collect                    # writes bench/results

Every number comes from run folders; the same command resumes an interrupted benchmark.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from commands import environment, finetuning_result, images_seen, run_benchmark, run_once, test_metrics, train

from isopix.storage import log

RESULT = Path(__file__).parent / "results" / "patches-flowers5.json"
RECIPES = {"patchformer": "patchformer.tiny", "vit": "vit.tiny"}
STEPS = {"patchformer": "steps=1500", "vit": "steps=3000"}  # ten minutes of one CPU core
SUBSETS = range(3)
# PatchFormer's defaults, with a learning rate of its paper's grid; from scratch, the same.
FINETUNING = (
    *("steps=300", "batch_size=32", "evaluate_every=20", "num_test_images=10000", "lr=2e-4"),
    *("generative_weight=0", "mask_ratio=0.1", "mask_at_eval=false", "dropout=0.1", "label_smoothing=0.01"),
)


def main() -> None:
    """Run what is missing, or collect the results."""
    run_benchmark(__doc__, names=list(RECIPES), result=RESULT, run=run, collect=collect)


def run(names: Sequence[str], data: str, out: Path) -> None:
    """Run these recipes."""
    for name in names:
        measure(name, data=data, out=out)


def measure(name: str, *, data: str, out: Path) -> None:
    """Pre-train, reconstruct and analyze; fine-tune and train from scratch on each subset of the labels."""
    folder, recipe = out / name, RECIPES[name]
    train(folder, "pretrain", recipe, STEPS[name], "--data", data)
    run_once(folder / "samples", "reconstruct", str(folder), "-n", "8")
    run_once(folder / "analysis", "analyze", str(folder))
    for subset in SUBSETS:
        labels = ("--labels", "10%", "--subset", str(subset))
        train(out / f"{name}-finetuned-{subset}", "finetune", str(folder), *FINETUNING, *labels)
        scratch = ("--data", data, "--seed", str(subset))
        train(out / f"{name}-scratch-{subset}", "finetune", recipe, *FINETUNING, *labels, *scratch)


def collect(out: Path) -> dict[str, Any]:
    """Return the numbers of both recipes, and the machine."""
    first = out / next(iter(RECIPES))
    return {**environment(first), "runs": {name: numbers(out, name) for name in RECIPES}}


def numbers(out: Path, name: str) -> dict[str, Any]:
    """Return the numbers of one pre-trained network, its fine-tuned runs and those from scratch."""
    folder = out / name
    return {
        "recipe": RECIPES[name],
        "loss_nats": test_metrics(folder)["loss_nats"],
        "images_seen": images_seen(folder),
        "training_seconds": max(
            each["seconds"] for each in log.read_log(folder / "log.jsonl") if "seconds" in each
        ),
        **{
            end: [finetuning_result(out / f"{name}-{end}-{each}") for each in SUBSETS]
            for end in ("finetuned", "scratch")
        },
    }


if __name__ == "__main__":
    main()
