"""No image of a dataset's own held-out splits is a copy of a training image, no test image one of either."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from isopix.data import load as loading
from isopix.data.measurement import measurement_of
from isopix.data.splits import Split
from tests.unit.data.refusal import refusal
from tests.unit.data.test_dataset import load
from tests.unit.data.test_sources import read

IMAGES = np.random.default_rng(0).integers(0, 256, (30, 8, 8, 3), dtype=np.uint8)


def archive(path: Path, **members: list[int]) -> Path:
    arrays = {f"x_{name}": IMAGES[indices] for name, indices in members.items()}
    labels = {f"y_{name}": np.array(indices) % 2 for name, indices in members.items()}
    np.savez(path / "set.npz", **arrays, **labels)
    return path / "set.npz"


def members(split: Split) -> list[int]:
    """Which images are in a split, by their pixels."""
    index = {image.transpose(2, 0, 1).tobytes(): i for i, image in enumerate(IMAGES)}
    return [index[image.numpy().tobytes()] for image in split.images]


def test_held_out_copies_of_own_splits_are_left_out_and_counted(tmp_path: Path) -> None:
    train, validation, test = [*range(10)], [3, 10, 11, 12], [0, 1, 11, 13, 14]
    data = load(archive(tmp_path, train=train, validation=validation, test=test))
    found = [members(each) for each in (data.train, data.validation, data.test)]
    assert found == [train, [10, 11, 12], [13, 14]]
    assert data.test.labels is not None
    assert data.test.labels.tolist() == [1, 0]
    assert len(data.notes) == 2
    records = [measurement_of(data, name) for name in ("train", "validation", "test")]
    counts = [(each.images, each.available, each.left_out) for each in records]
    assert counts == [(10, 10, 0), (3, 4, 1), (2, 5, 3)]


def test_a_limit_and_training_on_validation_change_no_other_image(tmp_path: Path) -> None:
    path = archive(tmp_path, train=[*range(10)], validation=[0, 10, 11], test=[1, 11, 12, 13, 14])
    assert members(load(path, train_on_validation=True).train) == [*range(12)]
    assert members(load(path, train_on_validation=True).test) == [12, 13, 14]
    assert len(load(path, train_on_validation=True, limit=2).train) == 4
    limited = load(path, limit=2)
    assert set(members(limited.test)) < {12, 13, 14}
    assert limited.left_out == {"validation": 1, "test": 2}
    message = "all 2 test images of dataset 'set' are copies of training or validation images"
    assert refusal(load, archive(tmp_path, train=[0, 1, 2, 3], validation=[5], test=[1, 5])) == message


def test_a_drawn_split_has_no_image_of_an_own_one(tmp_path: Path) -> None:
    data = load(archive(tmp_path, train=[*range(20), 3, 4], test=[0, 20, 21]), holdout=0.4)
    parts = [members(each) for each in (data.train, data.validation, data.test)]
    assert parts[2] == [20, 21]
    assert sorted(set(parts[0] + parts[1])) == [*range(20)]
    assert parts[1]
    assert not set(parts[0]) & set(parts[1])


def test_published_datasets_stay_as_published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = archive(tmp_path, train=[*range(10)], test=[1, 2, 11])
    monkeypatch.setattr(loading, "open_source", lambda config: lambda: replace(read(path), fixed=True))
    data = load(path, holdout=0.0)
    assert members(data.test) == [1, 2, 11]
    assert (data.notes, data.left_out) == ((), {})
