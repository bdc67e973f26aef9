"""Runs are paired: the same labels, validation and test images, whatever they start from."""

import json
from pathlib import Path

import numpy as np

from isopix.core.config import from_dict
from isopix.data.dataset import ImageDataset
from isopix.data.load import load_dataset
from isopix.recipes.recipe import Recipe
from tests.smoke.conftest import QUICK, Run, done

DATA = ("--data", "photos", "data.size=16", "holdout=0.2", "data.augment=none")
TUNED = ("data.augment=none", "steps=2", "num_test_images=8")
LABELS = ("--labels", "40%", "--subset", "1", "--seed", "5")


def dataset(run: Path) -> ImageDataset:
    """The images of a run, read again by its own settings."""
    return load_dataset(from_dict(Recipe, json.loads((run / "recipe.json").read_text())).data)


def hashes(data: ImageDataset, split: str) -> set[int]:
    return set(getattr(data, split).hashes.tolist())


def test_the_same_labels_are_the_same_images_from_pre_training_and_from_scratch(
    isopix: Run, workplace: Path
) -> None:
    """A network of another seed, fine-tuned, and the recipe trained from scratch."""
    runs = workplace / "runs"
    for words in (
        ("pretrain", "igpt.tiny", *DATA, *QUICK, "--out", "runs/pre", "--seed", "3"),
        ("finetune", "runs/pre", *TUNED, *LABELS, "--out", "runs/tuned"),
        ("finetune", "igpt.tiny", "--from-scratch", *DATA, *QUICK, *LABELS, "--out", "runs/scratch"),
    ):
        assert isopix(*words)[0] == 0
    tuned, scratch = dataset(runs / "tuned"), dataset(runs / "scratch")
    recorded = set(np.load(runs / "scratch" / "labeled-images.npy"))
    assert hashes(tuned, "train") == hashes(scratch, "train") == recorded
    assert 0 < len(tuned.train) < len(dataset(runs / "pre").train)
    for data in (tuned, scratch, dataset(runs / "pre")):
        assert hashes(data, "validation") == hashes(tuned, "validation")
        assert not hashes(data, "validation") & hashes(scratch, "train")
        assert hashes(data, "test") == hashes(tuned, "test")
    tested = [np.load(runs / name / "test-images.npz")["hashes"].tolist() for name in ("tuned", "scratch")]
    assert tested[0] == tested[1]
    assert len(tested[0]) == min(8, len(tuned.test))
    assert set(tested[0]) <= hashes(tuned, "test")
    out = done(isopix("compare", "runs/tuned", "--baseline", "runs/scratch", "--out", "found.json"))
    assert "paired: 1 seed x 1 draw of the labels, the same" in out
    assert out.endswith("wrote found.json\n")
