"""Why a tiny PatchFormer that was pre-trained is less accurate than one from scratch: one cause at a time.

python bench/patchformer_causes.py --data flowers5 --out runs/causes   # runs what is missing; or --only lr
python bench/patchformer_causes.py --out runs/causes --collect         # writes bench/results

An hour on one core. From scratch has the same labels, settings and steps; runs of equal settings are shared.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from cells import RESULTS, read, table, threads
from commands import SEEDS, environment, finished, pretraining_results, run_benchmark, test_metrics, train
from patches import FINETUNING, LABELS, STEPS

from isopix.core.stats import mean_half_width
from isopix.core.text import mean_and_std

RESULT, RECIPE = RESULTS / "patchformer-causes.json", "patchformer.tiny"
PRETRAINING = ("steps=2500", "evaluate_every=500", "num_test_images=10000")
# What is changed, and the settings of pre-training and of fine-tuning, which are those from scratch too.
CAUSES: dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    "none": ("as in the results above, with shorter pre-training", (), ()),
    "steps": ("four times the steps", (), ("steps=600", "evaluate_every=100")),
    "lr": ("five times the learning rate", (), ("lr=1e-3",)),
    "whole-images": ("no patches masked in fine-tuning", (), ("mask_ratio=0",)),
    "mask-ratio": ("a third of the patches masked in pre-training", ("objective.mask.ratio=0.33",), ()),
    "decoder-input": ("decoder input u + X + Y", ("objective.corruption.norm_positions=false",), ()),
}


def main() -> None:
    run_benchmark(__doc__, names=list(CAUSES), result=RESULT, run=run, collect=collect)


def run(names: Sequence[str], seeds: Sequence[int], data: str, out: Path) -> None:
    """Pre-train, fine-tune, and train from scratch with the settings of each cause."""
    for name, seed in ((name, seed) for name in names for seed in seeds):
        _, before, after = CAUSES[name]
        pretrained, *tuned = folders(out, name, seed)
        given = ("--data", data, "--seed", str(seed))
        train(pretrained, "pretrain", RECIPE, *PRETRAINING, *before, *given)
        words = (*FINETUNING, STEPS["patchformer"], *after, "--labels", LABELS, "--subset", str(seed))
        for path, source in zip(tuned, ([str(pretrained)], [RECIPE, "--from-scratch"]), strict=True):
            train(path, "finetune", *source, *words, *given)


def folders(out: Path, name: str, seed: int) -> list[Path]:
    """Return the runs that are pre-trained, fine-tuned and from scratch, which causes may share."""
    _, before, after = CAUSES[name]
    kinds = {"pretrained": before, "finetuned": before + after, "scratch": after}
    return [out / "-".join([kind, *words, str(seed)]).replace("=", "-") for kind, words in kinds.items()]


def collect(out: Path) -> dict[str, Any]:
    """Return the test accuracies, and the loss of pre-training, of causes that have all runs."""
    runs: dict[str, Any] = {}
    for name in CAUSES:
        pretrained, *tuned = zip(*(folders(out, name, seed) for seed in SEEDS), strict=True)
        if all(finished(path) for paths in tuned for path in paths):
            accuracies = [[test_metrics(path)["accuracy"] for path in paths] for paths in tuned]
            numbers = pretraining_results(pretrained) | environment(pretrained[0])
            runs[name] = {"accuracies": accuracies, **numbers}
    return {"runs": runs}


def causes() -> str:
    """Return a row for each cause that is measured."""
    runs = read(RESULT.name)["runs"]
    columns = ("fine-tuned", "from scratch", "difference, points (95% interval)", "pre-training loss")
    rows = []
    for name, each in runs.items():
        tuned, scratch = each["accuracies"]
        differences = 100 * (np.array(tuned) - np.array(scratch))
        difference = f"{differences.mean():+.1f} ± {mean_half_width(differences):.1f}"
        loss, free = (each[key]["mean"] for key in ("loss_nats", "baseline_nats"))
        losses = f"{loss:.3f} (baseline {free:.3f})"
        rows.append((CAUSES[name][0], mean_and_std(tuned), mean_and_std(scratch), difference, losses))
    first = next(iter(runs.values()))
    images = first["images"]
    return table(("changed", *columns), rows) + (
        f"\nTest accuracy, {images['test']:,} images, mean ± std over {len(SEEDS)} seeds, each with its own"
        f" pre-training ({first['images_seen']:,} training images processed, of {images['train']:,}) and draw"
        f" of {LABELS} of the labels, paired; isopix {first['isopix']}, {threads(first)} of"
        f" {first['device']}.\n"
    )


if __name__ == "__main__":
    main()
