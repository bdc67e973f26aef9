"""No test image is one that the run was trained on, whatever dataset and seeds are given later."""

import logging
from pathlib import Path

import numpy as np
import pytest
import torch

import isopix
from isopix.data.dataset import DataConfig, ImageDataset, load_dataset
from isopix.runs.seen import leave_out_seen, load_seen, seen_images

SMALL = ["steps=2", "depth=1", "width=16", "heads=2", "batch_size=8", "size=8", "evaluate_images=4"]
SETTINGS = [*SMALL, "data.augment=none", "holdout=0.2"]


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """60 random images of two classes, without splits."""
    draw = np.random.default_rng(0)
    pixels = draw.integers(0, 256, (60, 8, 8), dtype=np.uint8)
    np.savez(tmp_path / "all.npz", x_train=pixels, y_train=np.arange(60) % 2)
    return tmp_path / "all.npz"


def dataset(archive: Path, **changes: int) -> ImageDataset:
    return load_dataset(DataConfig(source=str(archive), rows=8, cols=8, holdout=0.2, **changes))


def pixels(images: torch.Tensor) -> set[bytes]:
    return {image.numpy().tobytes() for image in images}


def test_a_run_records_the_images_that_it_is_trained_on(tmp_path: Path, archive: Path) -> None:
    run = isopix.pretrain("igpt.digits", data=archive, out=tmp_path / "run", overrides=SETTINGS)
    seen, data = load_seen(run.folder), dataset(archive)
    assert seen is not None
    assert data.train.hashes is not None
    assert seen.tolist() == sorted(set(data.train.hashes.tolist()))
    assert load_seen(next((run.folder / "checkpoints").iterdir())).tolist() == seen.tolist()


def test_a_fine_tuned_run_has_also_seen_the_images_of_pre_training(tmp_path: Path, archive: Path) -> None:
    source = isopix.pretrain("igpt.digits", data=archive, out=tmp_path / "run", overrides=SETTINGS)
    words = ["steps=2", "data.seed=5", "data.augment=none", "holdout=0.2"]
    tuned = isopix.finetune(source, out=tmp_path / "tuned", overrides=words)
    parts = [dataset(archive), dataset(archive, seed=5)]
    expected = {number for data in parts for number in data.train.hashes.tolist()}
    assert set(load_seen(tuned.folder).tolist()) == expected
    found = isopix.evaluate(tuned.folder)
    unseen = pixels(parts[1].test.images) - pixels(parts[0].train.images)
    assert found.metrics.num_images == len(unseen) < len(parts[1].test)


def test_test_images_of_another_dataset_that_were_trained_on_are_left_out(
    tmp_path: Path, archive: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The other archive tests on images that the run was trained on, under other labels and names."""
    run = isopix.pretrain("igpt.digits", data=archive, out=tmp_path / "run", overrides=SETTINGS)
    with np.load(archive) as arrays:
        images = arrays["x_train"]
    fresh = np.random.default_rng(1).integers(0, 256, (70, 8, 8), dtype=np.uint8)
    np.savez(
        tmp_path / "other.npz",
        x_train=fresh[:40],
        y_train=np.arange(40) % 2,
        x_test=np.concatenate([images, fresh[40:]]),
        y_test=np.arange(90) % 2,
    )
    with caplog.at_level(logging.WARNING):
        found = isopix.probe(run, data=tmp_path / "other.npz", l2_grid=[0.1])
    trained = len(load_seen(run.folder))
    assert found.report.network.num_images["test"] == 90 - trained
    message = f"{trained} of 90 test images of dataset 'other' are left out: the run was trained on them"
    assert message in caplog.text


def test_a_dataset_of_which_all_test_images_were_trained_on_is_refused(archive: Path) -> None:
    data = dataset(archive)
    with pytest.raises(ValueError, match=rf"trained on all {len(data.test)} test images of dataset 'all'"):
        leave_out_seen(data, data.test.hashes)


def test_images_of_which_no_content_is_known_are_all_kept(archive: Path) -> None:
    data = dataset(archive)
    assert leave_out_seen(data, None) == (data, "")
    assert leave_out_seen(data, seen_images(data)) == (data, "")


def test_a_damaged_record_is_named(tmp_path: Path) -> None:
    (tmp_path / "training-images.npy").write_bytes(b"no array")
    with pytest.raises(ValueError, match=r"training-images\.npy is damaged"):
        load_seen(tmp_path)
