"""A fine-tuned run records which test images it classifies correctly, under the masks of its evaluation."""

from pathlib import Path

import numpy as np
import pytest
import torch

import isopix
from isopix.data.dataset import load_dataset
from isopix.runs.test_images import load_test_images
from isopix.storage.log import read_log

SMALL = ["steps=3", "depth=1", "width=16", "heads=2", "batch_size=8", "data.augment=none", "lr=1e-2"]
SMALL += ["num_test_images=null"]


@pytest.mark.parametrize("recipe", ["igpt.digits", "igpt.digits_bert"])
def test_the_file_has_the_test_accuracy_of_the_log_and_the_models_own_predictions(
    tmp_path: Path, recipe: str
) -> None:
    run = isopix.finetune(recipe, *SMALL, data="digits", out=tmp_path / "run")
    found, [test] = (
        load_test_images(run.path),
        [e for e in read_log(run.path / "log.jsonl") if "accuracy" in e and e["split"] == "test"],
    )
    assert found is not None
    assert len(found.hashes) == len(set(found.hashes.tolist())) == test["images"] == 180
    assert found.correct.double().mean().item() == pytest.approx(test["accuracy"], abs=1e-6)


def test_unmasked_predictions_are_those_of_the_loaded_model(tmp_path: Path) -> None:
    run = isopix.finetune("igpt.digits", *SMALL, data="digits", out=tmp_path / "run")
    evaluated = isopix.evaluate(run.path)
    found = load_test_images(run.path)
    assert found is not None
    assert int(found.correct.sum()) == np.trace(np.array(evaluated.metrics.confusion_matrix))


def test_a_pre_trained_run_has_none_and_a_damaged_file_is_named(tmp_path: Path) -> None:
    words = [each for each in SMALL if each != "lr=1e-2"]
    run = isopix.pretrain("igpt.digits", *words, data="digits", out=tmp_path / "run")
    assert load_test_images(run.path) is None
    (run.path / "test-images.npz").write_bytes(b"nothing")
    with pytest.raises(ValueError, match=r"test-images\.npz is damaged"):
        load_test_images(run.path)


def test_placements_of_one_digit_are_a_group(tmp_path: Path) -> None:
    words = [*SMALL, "data.limit=60", "num_test_images=40"]
    run = isopix.finetune("igpt.translated_digits", *words, data="translated-digits", out=tmp_path / "run")
    found, test = load_test_images(run.path), load_dataset(run.run.recipe.data).test.sample(40)
    assert found is not None
    assert found.groups is not None
    assert test.groups is not None
    assert test.hashes is not None
    assert torch.equal(found.groups, test.groups)
    assert torch.equal(found.hashes, test.hashes)
    earlier = {"hashes": found.hashes.numpy(), "correct": found.correct.numpy()}
    np.savez(run.path / "test-images.npz", **earlier)
    ungrouped = load_test_images(run.path)
    assert ungrouped is not None
    assert ungrouped.groups is None
    np.savez(run.path / "test-images.npz", **earlier, groups=np.zeros(3, dtype=int))
    with pytest.raises(ValueError, match=r"test-images\.npz is damaged: its arrays have different lengths"):
        load_test_images(run.path)
