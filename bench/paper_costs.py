"""Writes the cost of pre-training the papers' networks, as `isopix plan` estimates it, to `bench/results`.

python bench/paper_costs.py
"""

import json
from pathlib import Path

import isopix

RECIPES = (
    "igpt.s",
    "igpt.m",
    "igpt.l",
    "igpt.xl",
    "isotropic.conv-pix2vec-6",
    "isotropic.mixer-pix2vec-6",
    "isotropic.transformer-1-pix2vec-6",
    "patchformer.base",
    "vit.b16",
    "vit.l16",
    "vit.h14",
)
DEVICES = ("H100", "A100")
FILE = Path(__file__).parent / "results" / "paper-costs.json"


def main() -> None:
    """Write parameters, images, FLOPs and device-hours of every recipe."""
    found = {}
    for recipe in RECIPES:
        plan = isopix.plan(recipe)
        found[recipe] = {
            "parameters": plan.parameters,
            "training_flops": plan.training_flops,
            "images": plan.images,
            "mfu": plan.mfu,
            "hours": {each.device: each.hours for each in plan.device_hours if each.device in DEVICES},
        }
    FILE.write_text(json.dumps({"isopix": isopix.__version__, "recipes": found}, indent=2) + "\n")


if __name__ == "__main__":
    main()
