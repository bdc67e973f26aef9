"""Neighbours are looked up at every evaluation, and the training does not notice."""

from pathlib import Path

import numpy as np
import pytest
import torch

from isopix.recipes import registry
from isopix.runs.load import load
from isopix.runs.pretrain import pretrain
from isopix.runs.training import RunObserver
from isopix.storage.log import read

CPU = torch.device("cpu")
SMALL = [
    "depth=2",
    "width=16",
    "steps=4",
    "batch_size=8",
    "evaluate_every=2",
    "evaluate_images=20",
    "num_test_images=8",
]


def trained(out: Path, *settings: str) -> Path:
    recipe = registry.resolve("igpt.digits", assignments=[*SMALL, "data.limit=200", *settings]).recipe
    pretrain(recipe, out, device=CPU, observer=RunObserver())
    return out


def evaluations(out: Path) -> list[dict]:
    return [each for each in read(out / "log.jsonl") if each.get("split") == "validation"]


def test_every_evaluation_tells_and_the_weights_are_the_same_bits(tmp_path: Path) -> None:
    with_them, without = trained(tmp_path / "a", "knn_images=100"), trained(tmp_path / "b")
    found = [each["knn_accuracy"] for each in evaluations(with_them)]
    assert len(found) == 3
    assert all(0.1 < each <= 1 for each in found)
    assert not any("knn_accuracy" in each for each in evaluations(without))
    ours, theirs = (load(out, device=CPU).network.tensors() for out in (with_them, without))
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_images_without_labels_are_refused_before_anything_is_trained(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(256, size=(40, 8, 8, 3), dtype=np.uint8)
    np.savez(tmp_path / "bare.npz", x_train=pixels)
    with pytest.raises(ValueError, match=r"^neighbours needs labels; data set 'bare' has none"):
        trained(tmp_path / "run", f"data.source={tmp_path / 'bare.npz'}", "codec.colours=4", "knn_images=5")
    assert not (tmp_path / "run").exists()
