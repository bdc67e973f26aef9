"""A run folder in Python: its metrics, its model, and which images pictures and analyses are of."""

import logging
import os
from dataclasses import replace
from pathlib import Path
from shutil import copy

import numpy as np
import pytest
import torch

import isopix
from isopix.data.dataset import DataConfig
from isopix.data.load import load_dataset
from isopix.pretrained.images import evaluation_data, leakage_warning, select_split
from isopix.runs.image_lists import load_hashes
from isopix.runs.load import LoadedRun
from isopix.storage.run_folder import SEEN
from tests.tiny_runs import Copy
from tests.unit.data.refusal import refusal

SETTINGS = ["steps=2", "depth=1", "width=16", "heads=2", "batch_size=8", "size=8", "holdout=0.2"]
SETTINGS += ["data.augment=none", "evaluate_images=4"]
IMAGES, FRESH = np.random.default_rng(0).integers(0, 256, (2, 40, 8, 8), dtype=np.uint8)
UNKNOWN = "the training images of this model are not known; {} images may be among them"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was trained on a part of 40 images."""
    made = tmp_path_factory.mktemp("selection")
    np.savez(made / "own.npz", x_train=IMAGES)
    isopix.pretrain("igpt.digits", *SETTINGS, data=made / "own.npz", out=made / "run")
    return made


@pytest.fixture
def loaded(folder: Path) -> LoadedRun:
    return isopix.load(folder / "run").loaded


def test_seen_images_of_another_dataset_are_left_out_before_its_limit(
    folder: Path, loaded: LoadedRun, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    np.savez(tmp_path / "other.npz", x_train=np.concatenate([IMAGES, FRESH]))
    trained = len(load_hashes(folder / "run", SEEN, {}))
    data, split = select_split(loaded, tmp_path / "other.npz", None, None)
    assert (split, len(data.train)) == ("train", 80 - trained)
    assert data.left_out == {"train": trained}
    note = f"{trained} of 80 train images of dataset 'other' left out: used to train the run"
    assert note in caplog.text
    assert len(select_split(loaded, tmp_path / "other.npz", "train", 45)[0].train) == 45


def test_other_images_are_read_without_the_columns_and_splits_of_the_runs_own(loaded: LoadedRun) -> None:
    own = replace(loaded.recipe.data, splits="none", label_column="pet", image_column="img")
    found = evaluation_data(replace(loaded, recipe=loaded.recipe.updated(data=own)), "digits")
    assert (found.splits, found.label_column, found.image_column) == ("auto", None, None)


def test_where_all_images_were_seen_they_are_kept_with_a_warning(
    folder: Path, loaded: LoadedRun, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    own = load_dataset(DataConfig(source=str(folder / "own.npz"), rows=8, cols=8, holdout=0.2))
    np.savez(tmp_path / "trained.npz", x_train=own.train.images.numpy().transpose(0, 2, 3, 1))
    data, split = select_split(loaded, tmp_path / "trained.npz", None, None)
    assert (split, len(data.train)) == ("train", len(own.train))
    assert f"all {len(own.train)} train images of dataset 'trained' were used to train the run" in caplog.text


def test_its_own_training_images_are_given_on_request(
    folder: Path, loaded: LoadedRun, caplog: pytest.LogCaptureFixture
) -> None:
    own = load_dataset(loaded.recipe.data)
    with caplog.at_level(logging.WARNING):
        for source in (None, folder / "own.npz"):
            data, _ = select_split(loaded, source, "train", None)
            assert len(data.train) == len(own.train)
            assert select_split(loaded, source, None, None)[1] == "test"
    assert caplog.text == ""


def test_it_is_said_where_the_training_images_are_not_known(
    folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("recipe.json", "environment.json", "log.jsonl"):
        copy(folder / "run" / name, tmp_path)
    (tmp_path / "checkpoints").symlink_to(folder / "run/checkpoints")
    loaded = isopix.load(tmp_path).loaded
    select_split(loaded, None, "train", None)
    assert caplog.text == ""
    select_split(loaded, None, None, None)
    assert UNKNOWN.format("test") in caplog.text


def test_a_run_is_a_path_with_a_recipe_and_a_log(copy_of: Copy, tmp_path: Path) -> None:
    run = isopix.Run(copy_of("ar", "run"))
    assert [record["step"] for record in run.log if record["kind"] == "train"] == [1, 2, 3, 4]
    assert (run.recipe.train.steps, os.fspath(run)) == (4, str(run.folder))
    assert "has no recipe.json" in refusal(isopix.Run, tmp_path)
    (run.folder / "log.jsonl").unlink()
    assert run.log == []


def test_its_model_is_loaded_once(pristine: Path) -> None:
    run = isopix.Run(pristine / "ar", device="cpu")
    assert run.model is run.model
    assert torch.equal(run.model.sample(2), isopix.load(run, device="cpu").sample(2))


@pytest.mark.parametrize(
    ("train_on_validation", "source", "count"),
    [(True, None, 1), (True, "SELF", 1), (True, "digits", 0), (False, None, 0), (False, "SELF", 0)],
)
def test_a_run_refitted_on_validation_images_gives_a_leakage_warning(
    tmp_path: Path, train_on_validation: bool, source: str | None, count: int
) -> None:
    own = str(tmp_path.resolve())
    data = DataConfig(source=own, rows=8, cols=8, train_on_validation=train_on_validation)
    assert len(leakage_warning(data, own if source == "SELF" else source)) == count
