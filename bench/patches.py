"""What ten minutes of photographs teach a tiny PatchFormer and a tiny ViT: pictures, analyses, and
fine-tuning with a tenth of the labels beside the same network from scratch, on three draws of them.

python bench/patches.py --data flowers5 --out runs/patches              # trains and measures what is missing
python bench/patches.py --data flowers5 --out runs/patches --only vit   # one recipe; both may run at once
python bench/patches.py --out runs/patches --collect                    # keeps the numbers in bench/results

Every number comes from run folders that `isopix` made; an interrupted call goes on where it was.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from commands import environment, once, seen, serve, tested, trained, tuned

from isopix.storage import log

RESULT = Path(__file__).parent / "results" / "patches-flowers5.json"
RECIPES = {"patchformer": "patchformer.tiny", "vit": "vit.tiny"}
STEPS = {"patchformer": "steps=1500", "vit": "steps=3000"}  # ten minutes of one CPU core
SUBSETS = range(3)
# PatchFormer's defaults, at a rate of its paper's grid; from scratch it is the same.
TUNING = (
    *("steps=300", "batch_size=32", "evaluate_every=20", "num_test_images=10000", "lr=2e-4"),
    *("generative_weight=0", "mask_ratio=0.1", "mask_at_eval=false", "dropout=0.1", "label_smoothing=0.01"),
)


def main() -> None:
    """Make what is missing, or collect what is there."""
    serve(__doc__, names=list(RECIPES), result=RESULT, make=make, collected=collected)


def make(names: Sequence[str], data: str, out: Path) -> None:
    """All of these recipes."""
    for name in names:
        measure(name, data=data, out=out)


def measure(name: str, *, data: str, out: Path) -> None:
    """Pre-train, look; fine-tune and train from scratch on each draw of the labels."""
    run, recipe = out / name, RECIPES[name]
    trained(run, "pretrain", recipe, STEPS[name], "--data", data)
    once(run / "samples", "reconstruct", str(run), "-n", "8")
    once(run / "analysis", "analyse", str(run))
    for subset in SUBSETS:
        labels = ("--labels", "10%", "--subset", str(subset))
        trained(out / f"{name}-tuned-{subset}", "finetune", str(run), *TUNING, *labels)
        scratch = ("--data", data, "--seed", str(subset))
        trained(out / f"{name}-scratch-{subset}", "finetune", recipe, *TUNING, *labels, *scratch)


def collected(out: Path) -> dict[str, Any]:
    """The numbers of both recipes, and on what machine they were made."""
    first = out / next(iter(RECIPES))
    return {**environment(first), "runs": {name: numbers(out, name) for name in RECIPES}}


def numbers(out: Path, name: str) -> dict[str, Any]:
    """Of one pre-trained network and what was made of it."""
    run = out / name
    return {
        "recipe": RECIPES[name],
        "loss_nats": tested(run)["loss_nats"],
        "images_seen": seen(run),
        "training_seconds": max(each["seconds"] for each in log.read(run / "log.jsonl") if "seconds" in each),
        **{end: [tuned(out / f"{name}-{end}-{each}") for each in SUBSETS] for end in ("tuned", "scratch")},
    }


if __name__ == "__main__":
    main()
