"""Subsets of few labels: balanced, drawn from train alone, the same for the same number."""

from fractions import Fraction

import pytest
import torch

from isopix.core.overrides import override
from isopix.core.random import generator
from isopix.data.dataset import DataConfig, ImageDataset, load_dataset
from isopix.data.splits import balanced_subset

LABELS = torch.tensor([0] * 30 + [1] * 10 + [5] * 20)[torch.randperm(60, generator=generator(0, "order"))]


def digits(**changes: object) -> ImageDataset:
    return load_dataset(override(DataConfig(rows=8, cols=8, seed=3), changes))


@pytest.mark.parametrize(
    ("per_class", "counts"), [(4, [4, 4, 4]), (Fraction(1, 4), [8, 3, 5]), (Fraction(1), [30, 10, 20])]
)
def test_each_class_has_its_number_or_its_fraction_rounded_up(
    per_class: int | Fraction, counts: list[int]
) -> None:
    index = balanced_subset(LABELS, per_class, generator(0, "subset"))
    assert [int((LABELS[index] == kind).sum()) for kind in (0, 1, 5)] == counts
    assert len(set(index.tolist())) == len(index)


def test_a_fraction_is_exact() -> None:
    """In floating point 0.07 * 100 is above 7."""
    per_class = DataConfig(labels_per_class="7%").count_or_fraction_per_class
    assert len(balanced_subset(torch.zeros(100, dtype=torch.long), per_class, generator(0, "subset"))) == 7


def test_every_image_of_a_class_is_as_likely_as_the_others() -> None:
    drawn = torch.zeros(60)
    for number in range(400):
        drawn[balanced_subset(LABELS, 5, generator(0, "subset", number))] += 1
    for kind, count in ((0, 30), (1, 10), (5, 20)):
        expected = 400 * 5 / count
        assert (drawn[kind == LABELS] - expected).abs().max() < 5 * expected**0.5


def test_subsets_are_functions_of_seed_and_number_and_come_from_train_alone() -> None:
    whole, few = digits(), digits(labels_per_class=4)
    assert few.train.labels.bincount().tolist() == [4] * 10
    known = {image.numpy().tobytes() for image in whole.train.images}
    assert all(image.numpy().tobytes() in known for image in few.train.images)
    assert torch.equal(few.validation.images, whole.validation.images)
    assert torch.equal(few.test.images, whole.test.images)
    same, other = digits(labels_per_class=4), digits(labels_per_class=4, subset=1)
    assert torch.equal(few.train.images, same.train.images)
    assert not torch.equal(few.train.images, other.train.images)
    assert len({each.fingerprint for each in (whole, few, same, other)}) == 3


@pytest.mark.parametrize("labels", ["x", "0%", -3, "101%", "4.5", "1/0%"])
def test_what_is_neither_a_number_nor_a_fraction_is_rejected(labels: int | str) -> None:
    with pytest.raises(
        ValueError, match="allowed: a number of images of each class, or a percentage of them, as in 10%"
    ):
        override(DataConfig(), {"labels_per_class": labels})
