"""Why a tiny PatchFormer that was pre-trained is less accurate than one from scratch: one cause at a time.

python bench/patchformer_causes.py --data flowers5 --out runs/causes               # runs what is missing
python bench/patchformer_causes.py --data flowers5 --out runs/causes --only rate   # one cause

An hour on one core. Each cause has three seeds, each with its own pre-training and draw of the labels, paired
with training from scratch with the same labels, settings and steps. Runs of equal settings are shared; the
same command resumes an interrupted benchmark. A finished cause is written to bench/results.
"""

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from cells import RESULTS, read, threads
from commands import SEEDS, environment, finished, pretraining_results, spread, test_metrics, train
from patches import FINETUNING, LABELS, STEPS

from isopix.core.stats import mean_half_width
from isopix.core.text import mean_and_std

RECIPE = "patchformer.tiny"
FOLDER = RESULTS / "patchformer-causes"
PRETRAINING = ("steps=2500", "evaluate_every=500", "num_test_images=10000")


@dataclass(frozen=True)
class Cause:
    """Settings of pre-training and of fine-tuning, also from scratch, that differ from the first cause's."""

    title: str
    pretraining: tuple[str, ...] = ()
    finetuning: tuple[str, ...] = ()


CAUSES = {
    "none": Cause("as in the results above, with shorter pre-training"),
    "steps": Cause("four times the steps", (), ("steps=600", "evaluate_every=100")),
    "rate": Cause("five times the learning rate", (), ("lr=1e-3",)),
    "whole-images": Cause("no patches masked in fine-tuning", (), ("mask_ratio=0",)),
    "mask-ratio": Cause("a third of the patches masked in pre-training", ("objective.mask.ratio=0.33",)),
    "decoder-input": Cause("decoder input u + X + Y", ("objective.corruption.norm_positions=false",)),
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", choices=CAUSES)
    options = parser.parse_args()
    FOLDER.mkdir(exist_ok=True)
    for name in [options.only] if options.only else CAUSES:
        runs = [run(CAUSES[name], seed, options.data, options.out) for seed in SEEDS]
        (FOLDER / f"{name}.json").write_text(json.dumps(collect(CAUSES[name], runs), indent=2) + "\n")


def run(cause: Cause, seed: int, data: str, out: Path) -> tuple[Path, Path, Path]:
    """Return the runs of a seed that were missing or not: pre-trained, fine-tuned and from scratch."""
    given = ("--data", data, "--seed", str(seed))
    pretrained = out / name_of("pretrained", cause.pretraining, seed)
    tuned = out / name_of("finetuned", (*cause.pretraining, *cause.finetuning), seed)
    scratch = out / name_of("scratch", cause.finetuning, seed)
    train(pretrained, "pretrain", RECIPE, *PRETRAINING, *cause.pretraining, *given)
    words = (*FINETUNING, STEPS["patchformer"], *cause.finetuning, "--labels", LABELS, "--subset", str(seed))
    for path, source in ((tuned, str(pretrained)), (scratch, RECIPE)):
        train(path, "finetune", source, *words, *given)
    return pretrained, tuned, scratch


def name_of(kind: str, settings: tuple[str, ...], seed: int) -> str:
    return "-".join([kind, *(each.replace("=", "-") for each in settings), str(seed)])


def collect(cause: Cause, runs: list[tuple[Path, Path, Path]]) -> dict[str, Any]:
    """Return the test accuracies of both, and the loss of pre-training."""
    assert all(map(finished, [path for paths in runs for path in paths]))
    pretrained, tuned, scratch = zip(*runs, strict=True)
    return {
        "title": cause.title,
        "settings": [*cause.pretraining, *cause.finetuning],
        "finetuned": spread([test_metrics(path)["accuracy"] for path in tuned]),
        "scratch": spread([test_metrics(path)["accuracy"] for path in scratch]),
        **pretraining_results(pretrained),
        **environment(pretrained[0]),
    }


def causes() -> str:
    """Return a row for each cause that is measured."""
    found = [read(f"{FOLDER.name}/{name}.json") for name in CAUSES if (FOLDER / f"{name}.json").is_file()]
    if not found:
        return "Not measured yet with this version.\n"
    rows = [
        "| changed | fine-tuned | from scratch | difference, points (95 % interval) | pre-training loss |",
        "|---|---|---|---|---|",
    ]
    for each in found:
        tuned, scratch = each["finetuned"]["values"], each["scratch"]["values"]
        differences = 100 * (np.array(tuned) - np.array(scratch))
        half = mean_half_width(differences)
        cells = [mean_and_std(tuned), mean_and_std(scratch), f"{differences.mean():+.1f} ± {half:.1f}"]
        loss, free = (each[name]["mean"] for name in ("loss_nats", "baseline_nats"))
        rows.append(f"| {each['title']} | {' | '.join(cells)} | {loss:.3f} (best baseline {free:.3f}) |")
    first = found[0]
    seen, machine = f"{first['images_seen']:,}", f"{threads(first)} of {first['device']}"
    return "\n".join(rows) + (
        f"\n\n{first['finetuned']['n']} seeds, each with its own pre-training on {seen} images and draw "
        f"of {LABELS} of the labels, paired; isopix {first['isopix']}, {machine}.\n"
    )


if __name__ == "__main__":
    main()
