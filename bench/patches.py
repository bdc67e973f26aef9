"""Masked patches after ten minutes of pre-training: a tiny PatchFormer and a tiny ViT, fine-tuned with 10%
of the labels and compared with the same network from scratch: 3 seeds x 5 draws of the labels, paired.

python bench/patches.py --data flowers5 --out runs/patches              # runs what is missing
python bench/patches.py --data flowers5 --out runs/patches --only vit   # one recipe; --seeds 0: one seed
python bench/patches.py --out runs/patches --collect                    # writes bench/results

Every number comes from run folders; the same command resumes an interrupted benchmark. Recipes and
seeds can run in parallel.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from commands import (
    environment,
    fine_tune,
    fine_tuning_results,
    finished_seeds,
    pretraining_results,
    run_benchmark,
    train,
)

RESULT = Path(__file__).parent / "results" / "patches-flowers5.json"
RECIPES = {"patchformer": "patchformer.tiny", "vit": "vit.tiny"}
PRETRAINING = {"patchformer": (), "vit": ("steps=3000", "evaluate_every=500")}
# PatchFormer's defaults, with a learning rate of its paper's grid; from scratch, the same.
FINETUNING = (
    *("batch_size=32", "evaluate_every=25", "checkpoint_every=100", "num_test_images=10000", "lr=2e-4"),
    *("generative_weight=0", "mask_ratio=0.1", "mask_at_eval=false", "dropout=0.1", "label_smoothing=0.01"),
    "data.augment=pad_crop_flip",
)
STEPS = {"patchformer": "steps=150", "vit": "steps=300"}  # of fine-tuning; a step of PatchFormer costs three
LABELS = "10%"


def main() -> None:
    run_benchmark(__doc__, names=list(RECIPES), result=RESULT, run=run, collect=collect)


def run(names: Sequence[str], seeds: Sequence[int], data: str, out: Path) -> None:
    """Pre-train; fine-tune and train from scratch on each draw of the labels."""
    for seed in seeds:
        for name in names:
            folder, recipe = out / f"{name}-{seed}", RECIPES[name]
            train(folder, "pretrain", recipe, *PRETRAINING[name], "--data", data, "--seed", str(seed))
            fine_tune(folder, recipe, *FINETUNING, STEPS[name], labels=LABELS, data=data, seed=seed)


def collect(out: Path) -> dict[str, Any]:
    """Return the numbers of the recipes with a finished seed, and the machine."""
    runs: dict[str, Any] = {}
    for name, recipe in RECIPES.items():
        seeds = finished_seeds(out, name)
        if seeds:
            folders = [out / f"{name}-{seed}" for seed in seeds]
            images = json.loads((folders[0] / "recipe.json").read_text())["data"]
            runs[name] = {
                "recipe": recipe,
                "size": f"{images['rows']}×{images['cols']}",
                **pretraining_results(folders),
                **fine_tuning_results(folders),
                **environment(folders[0]),
            }
    return {"runs": runs}


if __name__ == "__main__":
    main()
