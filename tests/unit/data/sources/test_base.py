"""Labels of any size become contiguous classes."""

import resource
import time
from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from isopix.data.sources.base import (
    MAX_CLASSES,
    Source,
    SplitName,
    array_split,
    labels_or_none,
    with_class_names,
)
from tests.unit.data.refusal import refusal


def _source(
    labels: Mapping[SplitName, Sequence[int] | NDArray[np.int64]], names: Sequence[str] = ()
) -> Source:
    splits = {
        name: array_split(np.zeros((len(ids), 2, 2), np.uint8), np.asarray(ids, dtype=np.int64), name)
        for name, ids in labels.items()
    }
    return with_class_names(Source("set", splits, (), "hash"), names)


def _labels(source: Source, name: SplitName) -> list[int]:
    labels = source.splits[name].labels
    assert labels is not None
    return labels.tolist()


def test_identifiers_become_classes_that_keep_them_as_names() -> None:
    source = _source({"train": [99_999, 10_017, 2**40, 10_017], "test": [2**40, 3]})
    assert source.classes == ("3", "10017", "99999", str(2**40))
    assert [_labels(source, "train"), _labels(source, "test")] == [[2, 1, 3, 1], [3, 0]]
    assert source.label_note == (
        "labels of dataset 'set' are 4 different numbers from 3 to 1099511627776; "
        "each is a class of that name"
    )


def test_every_split_and_image_keeps_its_identifier() -> None:
    draw = np.random.default_rng(0)
    ids: dict[SplitName, NDArray[np.int64]] = {
        name: draw.integers(0, 2**62, 50)[draw.integers(0, 50, 300)]
        for name in ("train", "validation", "test")
    }
    source = _source(ids)
    for name, given in ids.items():
        assert [int(source.classes[label]) for label in _labels(source, name)] == given.tolist()
    used = {label for name in ids for label in _labels(source, name)}
    assert used == set(range(len(source.classes)))


@pytest.mark.parametrize(
    ("labels", "names", "classes"),
    [([0, 2, 2], (), ("0", "1", "2")), ([1, 0], ("cat", "dog", "owl"), ("cat", "dog", "owl"))],
)
def test_small_and_named_labels_are_class_indices_as_they_are(
    labels: list[int], names: tuple[str, ...], classes: tuple[str, ...]
) -> None:
    source = _source({"train": labels}, names)
    assert (source.classes, _labels(source, "train"), source.label_note) == (classes, labels, "")


def test_many_contiguous_labels_are_as_they_are_and_need_no_note() -> None:
    source = _source({"train": range(21_843)})
    assert (len(source.classes), source.label_note) == (21_843, "")
    assert _labels(source, "train") == list(range(21_843))


def test_too_many_classes_are_refused() -> None:
    assert refusal(_source, {"train": np.arange(MAX_CLASSES + 1) * 7}) == (
        "the labels are of 100,001 different classes; allowed: up to 100,000"
    )
    assert refusal(_source, {"train": [0]}, ["name"] * (MAX_CLASSES + 1)).startswith(
        "the labels are of 100,001"
    )


def test_the_largest_labels_cost_no_memory() -> None:
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.monotonic()
    source = _source({"train": [2**31, 2**40, 2**63 - 1]})
    assert len(source.classes) == 3
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 * 1024  # KiB
    assert time.monotonic() - start < 10


def test_negative_labels_are_missing_or_refused() -> None:
    assert labels_or_none([None, -1], "y") is None
    assert refusal(labels_or_none, [0, -5], "y") == "y has label -5; allowed: 0 or more, and -1 for no label"
    assert refusal(labels_or_none, [0, 2**63], "y") == (
        "y has labels above 9223372036854775807; allowed: integers of 64 bits"
    )
