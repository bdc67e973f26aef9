"""Classes that are evaluated and not trained on."""

from dataclasses import replace

import pytest
import torch

from isopix.data.dataset import ImageDataset
from isopix.data.missing_classes import missing_class_notes, missing_classes
from isopix.data.splits import Split
from tests.unit.data.refusal import refusal

NAMES = tuple("abcdefgh")


def split(labels: list[int]) -> Split:
    return Split(torch.zeros(len(labels), 3, 4, 4, dtype=torch.uint8), torch.tensor(labels, dtype=torch.long))


def dataset(train: list[int], validation: list[int], test: list[int]) -> ImageDataset:
    return ImageDataset("pets", NAMES, split(train), split(validation), split(test), "")


def test_classes_without_training_images_are_counted_by_split() -> None:
    data = dataset([0, 1, 1], [0, 2, 2, 3], [1, 7])
    assert missing_classes(data) == {"validation": {"c": 2, "d": 1}, "test": {"h": 1}}


def test_nothing_is_missing_where_training_has_every_class() -> None:
    data = dataset([0, 1, 2], [0, 2], [])
    assert missing_classes(data) == {}
    assert missing_class_notes(data) == ()


def test_nothing_is_missing_without_labels() -> None:
    data = dataset([0, 1], [2], [3])
    unlabeled = Split(data.train.images)
    assert missing_classes(replace(data, train=unlabeled)) == {}
    assert missing_classes(replace(data, validation=unlabeled, test=unlabeled)) == {}


def test_a_note_names_the_first_classes_with_their_images() -> None:
    [note] = missing_class_notes(dataset([0, 1], [0, 1], [2, 3, 4, 5, 5, 6, 7, 0]))
    assert note == (
        "7 of 8 test images of dataset 'pets' are of classes without training images, which no classifier "
        "can predict: c (1), d (1), e (1), f (2), g (1) and 1 more"
    )


@pytest.mark.parametrize("train", [[1], [1, 1, 1]])
def test_training_images_of_one_class_are_refused_where_labels_are_needed(train: list[int]) -> None:
    assert refusal(dataset(train, [0], [1]).require_labels, "probe") == (
        "probe needs training images of two classes or more; those of dataset 'pets' are all of class b"
    )
