"""No test image is one that a run was trained on or selected by, whatever dataset and seeds are given."""

import logging
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

import isopix
from isopix.data.dataset import DataConfig, ImageDataset, load_dataset
from isopix.runs.image_lists import load_seen
from isopix.runs.load import load_run
from isopix.storage.log import read_log
from isopix.train.trainer import Record

SMALL = ["steps=2", "depth=1", "width=16", "heads=2", "batch_size=8", "size=8", "evaluate_images=4"]
SETTINGS = [*SMALL, "data.augment=none", "holdout=0.2"]
TUNING = ["steps=2", "data.seed=5", "data.augment=none", "holdout=0.2"]
UNKNOWN = "the training images of this model are not known; test images may be among them"
CPU = torch.device("cpu")


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """60 random images of two classes, without splits."""
    draw = np.random.default_rng(0)
    pixels = draw.integers(0, 256, (60, 8, 8), dtype=np.uint8)
    np.savez(tmp_path / "all.npz", x_train=pixels, y_train=np.arange(60) % 2)
    return tmp_path / "all.npz"


def dataset(archive: Path, **changes: int) -> ImageDataset:
    return load_dataset(DataConfig(source=str(archive), rows=8, cols=8, holdout=0.2, **changes))


def hashes_of(folder: Path) -> set[int]:
    found = load_seen(folder, {})
    assert found is not None
    return set(found.tolist())


def record_of_test(folder: Path) -> Record:
    """The log record of the test images."""
    [record] = [each for each in read_log(folder / "log.jsonl") if each.get("split") == "test"]
    return record


def pixels(images: torch.Tensor) -> set[bytes]:
    return {image.numpy().tobytes() for image in images}


def test_a_fine_tuned_run_has_also_seen_the_images_of_pre_training(tmp_path: Path, archive: Path) -> None:
    source = isopix.pretrain("igpt.digits", *SETTINGS, data=archive, out=tmp_path / "run")
    tuned = isopix.finetune(source, *TUNING, "patience=null", out=tmp_path / "tuned")
    parts = [dataset(archive), dataset(archive, seed=5)]
    assert hashes_of(source.path) == set(parts[0].train.hashes.tolist())
    assert hashes_of(next((source.path / "checkpoints").iterdir())) == hashes_of(source.path)
    expected = {number for data in parts for number in data.train.hashes.tolist()}
    assert hashes_of(tuned.path) == expected
    found = isopix.evaluate(tuned.path)
    unseen = pixels(parts[1].test.images) - pixels(parts[0].train.images)
    assert found.metrics.num_images == len(unseen) < len(parts[1].test)


@pytest.mark.parametrize(("words", "count"), [((), None), (("evaluate_images=3",), 3)])
def test_a_run_also_records_the_validation_images_that_select_its_step(
    tmp_path: Path, archive: Path, words: Sequence[str], count: int | None
) -> None:
    run = isopix.pretrain("igpt.digits", *SETTINGS, data=archive, out=tmp_path / "run")
    tuned = isopix.finetune(run, "steps=2", "data.augment=none", *words, out=tmp_path / "tuned")
    selecting = set(dataset(archive).validation.sample(count).hashes.tolist())
    assert hashes_of(tuned.path) - hashes_of(run.path) == selecting
    assert len(selecting) == (count or len(dataset(archive).validation))


def test_test_images_of_another_dataset_that_were_trained_on_are_left_out(
    tmp_path: Path, archive: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The other archive tests on images that the run was trained on, under other labels and names."""
    run = isopix.pretrain("igpt.digits", *SETTINGS, data=archive, out=tmp_path / "run")
    with np.load(archive) as arrays:
        images = arrays["x_train"]
    fresh = np.random.default_rng(1).integers(0, 256, (70, 8, 8), dtype=np.uint8)
    labels = {"y_train": np.arange(40) % 2, "y_test": np.arange(90) % 2}
    tested = np.concatenate([images, fresh[40:]])
    np.savez(tmp_path / "other.npz", x_train=fresh[:40], x_test=tested, **labels)
    with caplog.at_level(logging.WARNING):
        found = isopix.probe(run, "l2_grid=[0.1]", data=tmp_path / "other.npz")
    trained = len(load_seen(run.path, {}))
    assert found.network.num_images["test"] == 90 - trained
    message = f"{trained} of 90 test images of dataset 'other' are left out: they were used to train the run"
    assert message in caplog.text
    assert found.warnings == ()


def test_a_model_whose_training_images_are_not_known_is_measured_with_a_warning(
    tmp_path: Path, archive: Path
) -> None:
    """So is one that was fine-tuned from it, although its own images are known."""
    source = isopix.pretrain("igpt.digits", *SETTINGS, data=archive, out=tmp_path / "run")
    assert load_run(source.path, device=CPU).seen_known
    (source.path / "training-images.npy").unlink()
    tuned = isopix.finetune(source, *TUNING, out=tmp_path / "tuned")
    notes = [each["text"] for each in read_log(tuned.path / "log.jsonl") if each["kind"] == "note"]
    assert notes.count(UNKNOWN) == 1
    assert record_of_test(tuned.path)["measurement"]["warnings"] == [UNKNOWN]
    assert load_seen(tuned.path, {}) is not None
    for run in (source, tuned):
        probed = isopix.probe(run, "l2_grid=[0.1]")
        assert probed.measurement.warnings == probed.warnings == (UNKNOWN,)
        few = isopix.low_data(run, labels=(2,), subsets=1, method="ridge")
        assert UNKNOWN in few.warnings
        assert few.measurement.warnings == (UNKNOWN,)
        verified = isopix.verify(run)
        assert verified.measurement.warnings == (UNKNOWN,)
    assert isopix.evaluate(tuned).measurement.warnings == (UNKNOWN,)
