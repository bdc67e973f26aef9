"""The measurement record says which images a number is of, and tells different ones apart."""

from dataclasses import replace

import pytest
import torch

from isopix.data.dataset import ImageDataset
from isopix.data.measurement import (
    differences,
    images_hash,
    majority_baseline,
    measurement_of,
    missing_class_notes,
)
from isopix.data.splits import Split
from isopix.storage.result import Measurement


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
    assert majority_baseline(data) == {"majority class": 0.2}, "dogs, of train"


def test_the_hash_is_that_of_the_images_and_their_labels() -> None:
    one, other = split([0, 1, 2]), split([0, 1, 2], seed=5)
    assert images_hash(one) == images_hash(Split(one.images.clone(), one.labels))
    relabeled = replace(one, labels=torch.tensor([0, 2, 1]))
    unlabeled = Split(one.images)
    assert len({images_hash(each) for each in (one, other, relabeled, unlabeled)}) == 4


def record(**changes: object) -> Measurement:
    values = {"data": "pets", "split": "test", "images": 5, "available": 5, "images_hash": "a", **changes}
    return Measurement(**values)


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"seeds": {"train.seed": 5}, "data": "another name", "baselines": {"majority class": 0.5}}, []),
        ({"images_hash": "b"}, ["images"]),
        ({"fitted_hash": "b"}, ["images fitted to"]),
        ({"labels_seen": None}, ["labels seen in training (0; unknown)"]),
        ({"selection": "by 9 images"}, ["selection (none; by 9 images)"]),
        ({"classes": {"test": 2}}, ["classes"]),
    ],
)
def test_numbers_can_be_compared_if_what_matters_is_the_same(
    changes: dict[str, object], found: list[str]
) -> None:
    assert differences([record(), None, record(**changes)]) == found


def test_classes_without_training_images_are_counted_and_named() -> None:
    data = dataset([0, 1, 1], [1, 2, 2])
    reason = "are of classes without training images, which no classifier can predict"
    assert missing_class_notes(data) == (f"2 of 3 test images of dataset 'pets' {reason}: owl (2)",)
    [other] = missing_class_notes(data, trained=("owl", "dog"))
    assert other == f"1 of 2 validation images of dataset 'pets' {reason}: cat (1)"
    assert missing_class_notes(replace(data, test=Split(data.train.images))) == ()
