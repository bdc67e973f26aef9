"""The measurement record says which images a number is of, and tells different ones apart."""

from dataclasses import replace

import pytest
import torch

from isopix.core.measurement import Measurement
from isopix.data.dataset import DataConfig, ImageDataset, load_dataset
from isopix.data.measurement import (
    described_differences,
    differences,
    images_hash,
    majority_baseline,
    measurement_of,
)
from isopix.data.splits import Split


def split(labels: list[int], seed: int = 0) -> Split:
    draw = torch.Generator().manual_seed(seed)
    images = torch.randint(256, (len(labels), 3, 4, 4), generator=draw).to(torch.uint8)
    return Split(images, torch.tensor(labels))


def dataset(train: list[int], test: list[int]) -> ImageDataset:
    return ImageDataset("pets", ("cat", "dog", "owl"), split(train), split([0, 1]), split(test, 1), "")


def test_a_record_counts_images_and_classes() -> None:
    data = dataset([0, 1, 1], [0, 1, 2, 2, 2])
    record = measurement_of(data, "test", data.test.select(torch.tensor([0, 1, 4])))
    assert (record.images, record.available) == (3, 5)
    assert record.classes == {"train": 2, "validation": 2, "test": 3}
    assert record.count == "3 of 5 test images of pets"
    assert replace(record, split="train").count == "3 of 5 images of pets (training split)"
    assert record.line == "3 of 5 test images of pets; 3 classes"
    [warning] = record.warnings
    assert "owl (3)" in warning


@pytest.mark.parametrize("limit", [7, 100])
def test_a_limited_dataset_knows_how_many_images_there_are(limit: int) -> None:
    data = load_dataset(DataConfig(rows=8, cols=8, limit=limit))
    records = [measurement_of(data, name) for name in ("train", "validation", "test")]
    assert [each.images for each in records] == [limit] * 3
    assert [each.available for each in records] == [1437, 180, 180]


def test_few_labels_are_a_part_of_the_training_images() -> None:
    data = load_dataset(DataConfig(rows=8, cols=8, labels_per_class=2))
    assert (len(data.train), data.train.available) == (20, 1437)


def test_validation_images_that_are_trained_on_count_as_training_images() -> None:
    data = load_dataset(DataConfig(rows=8, cols=8, train_on_validation=True))
    assert (len(data.train), data.train.available) == (1617, 1617)


def test_the_hash_is_that_of_the_images_and_their_labels() -> None:
    one, other = split([0, 1, 2]), split([0, 1, 2], seed=5)
    assert images_hash(one) == images_hash(Split(one.images.clone(), one.labels))
    relabeled = replace(one, labels=torch.tensor([0, 2, 1]))
    unlabeled = Split(one.images)
    assert len({images_hash(each) for each in (one, other, relabeled, unlabeled)}) == 4


def test_the_same_images_at_another_resolution_have_the_same_hash() -> None:
    small, large = (load_dataset(DataConfig(rows=side, cols=side)).test for side in (8, 12))
    assert images_hash(small) == images_hash(large)


def record(**changes: object) -> Measurement:
    values = {"data": "pets", "split": "test", "images": 5, "available": 5, "images_hash": "a", **changes}
    return Measurement(**values)


def test_a_record_survives_a_file() -> None:
    full = record(
        left_out=2,
        classes={"test": 3},
        labels_seen=None,
        seeds={"train.seed": 1},
        baselines={"majority": 0.5},
    )
    assert Measurement.from_dict(full.to_dict()) == full


def test_the_line_says_what_limits_the_number() -> None:
    full = record(
        left_out=2, fitted_images=40, selection="layer chosen on 9 validation images", labels_seen=3000
    )
    assert full.line == (
        "5 test images of pets; 2 copies of training or validation images are left out; "
        "fitted to 40 training images; layer chosen on 9 validation images; "
        "the network was trained on the labels of 3,000 different images"
    )


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({}, []),
        ({"seeds": {"train.seed": 5}}, []),
        ({"data": "the same under another name"}, []),
        ({"images_hash": "b"}, ["images"]),
        ({"fitted_hash": "b"}, ["images fitted to"]),
        ({"labels_seen": 40}, ["labels seen in training"]),
        ({"selection": "step chosen on 9 validation images"}, ["selection"]),
        ({"classes": {"test": 2}}, ["classes"]),
        ({"baselines": {"majority class": 0.5}, "labels_seen": None}, ["labels seen in training"]),
    ],
)
def test_numbers_can_be_compared_if_what_matters_is_the_same(
    changes: dict[str, object], found: list[str]
) -> None:
    assert differences([record(), record(**changes)]) == found
    assert differences([record(), None]) == []


def test_a_difference_is_described_by_its_values() -> None:
    changes = {"images_hash": "b", "labels_seen": None, "selection": "step chosen on 9 validation images"}
    assert described_differences(record(labels_seen=1437), record(**changes)) == [
        "images",
        "labels seen in training (1,437; unknown)",
        "selection (none; step chosen on 9 validation images)",
    ]
    assert described_differences(record(), None) == []


def test_the_majority_class_is_that_of_train() -> None:
    """Train has dogs in the majority, test has owls: predicting the majority class of train gets one of 5."""
    assert majority_baseline(dataset([0, 1, 1], [0, 1, 2, 2, 2])) == {"majority class": 0.2}
