"""Names of folders, shards and arrays: the splits that their owners mean, or a refusal with both readings."""

import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from isopix.data.dataset import DataConfig, SplitReading
from isopix.data.sources.base import Source, find_reader
from isopix.verbs.data import data_show
from tests.unit.data.refusal import refusal
from tests.unit.data.shards import encoded, table, write_arrow, write_tar
from tests.unit.data.test_dataset import load
from tests.unit.data.test_sources import labels_of

Sizes = dict[str, int]


def _read(path: Path, splits: SplitReading = "auto") -> Source:
    return find_reader(DataConfig(source=str(path), splits=splits))()


def _sizes(source: Source) -> Sizes:
    return {name: split.num_images for name, split in source.splits.items()}


def _images(root: Path, names: str) -> Path:
    for number, name in enumerate(names.split()):
        path = root / name if name.endswith(".png") else root / name / "1.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encoded(number))
    return root


WRITERS: dict[str, Callable[[Path, int], object]] = {
    "tar": lambda path, number: write_tar(path, [("a.png", encoded(number))]),
    "arrow": lambda path, number: write_arrow(path, table(1, seed=number)),
    "parquet": lambda path, number: pq.write_table(table(1, seed=number), path),
}


def _shards(root: Path, names: str, kind: str) -> Path:
    for number, name in enumerate(names.split()):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        WRITERS[kind](root / f"{name}.{kind}", number)
    return root


def _arrays(root: Path, names: str) -> Path:
    images, labels = np.zeros((1, 4, 4), np.uint8), np.zeros(1, int)
    found = {each: each[0] in "yY" or "labels" in each for each in names.split()}
    arrays: dict[str, Any] = {each: labels if of_labels else images for each, of_labels in found.items()}
    np.savez(root / "set.npz", **arrays)
    return root / "set.npz"


TRAIN_VAL, TRAIN_TEST = {"train": 1, "validation": 1}, {"train": 1, "test": 1}
TWO_ONE, VAL_TWICE = {"train": 2, "test": 1}, {"train": 1, "validation": 2}
ALL = {"train": 1, "validation": 1, "test": 1}

SHARDS: list[tuple[str, Sizes]] = [
    ("imagenet1k-train-0000 imagenet1k-validation-00", TRAIN_VAL),
    ("cifar10-train-00000-of-00002 cifar10-train-00001-of-00002 cifar10-test-0", TWO_ONE),
    ("my_train_0 my_eval_0 TEST.0", ALL),
    ("Training/0 testing-000", TRAIN_TEST),
    ("train-0 dev-0", TRAIN_VAL),
    ("x/default/partial-train/0000 x/default/partial-test/0000", TRAIN_TEST),
    ("test_images-train-0 test_images-test-0", TRAIN_TEST),  # the last of several words
    ("training-kit/trainset-0 training-kit/Testset-0", TRAIN_TEST),  # in a folder of all splits
    ("latest-0 trained-0 contest-0 valley-0 device-0", {"train": 5}),
]

FOLDERS: list[tuple[str, Sizes, list[str]]] = [  # and the classes
    ("Train/dog Train/cat Test/dog", TWO_ONE, ["cat", "dog"]),
    ("training_set/a training_set/b test_set/a", TWO_ONE, ["a", "b"]),
    ("seg_train/seg_train/sea seg_train/seg_train/ice seg_test/seg_test/sea", TWO_ONE, ["ice", "sea"]),
    ("archive/train/dog archive/train/cat archive/test/cat", TWO_ONE, ["cat", "dog"]),
    ("trainA testA", TRAIN_TEST, []),
    ("cat/train dog/train cat/test", TWO_ONE, ["cat", "dog"]),
    ("train/cat train/dog test/1.png", TWO_ONE, ["cat", "dog"]),  # test has no labels
    ("train/train train/cat test/train", TWO_ONE, ["cat", "train"]),  # as in CIFAR-100
    ("train/cat val/cat preview.png", TRAIN_VAL, ["cat"]),
    ("train_data/train/b train_data/train/a train_data/test/a preview.png", TWO_ONE, ["a", "b"]),
    ("set/train/dog/x set/train/cat/y set/test/dog/z", TWO_ONE, ["cat", "dog"]),
    ("EuroSAT/sea EuroSAT/ice", {"train": 2}, ["ice", "sea"]),  # in a folder of all classes
    ("cat/1.png cat/more/2.png", {"train": 2}, ["cat"]),
    ("cat dog latest contest", {"train": 4}, ["cat", "contest", "dog", "latest"]),
]  # fmt: skip


@pytest.mark.parametrize("kind", ["tar", "parquet", "arrow"])
@pytest.mark.parametrize(("names", "sizes"), SHARDS)
def test_shards_are_of_the_split_that_they_name(tmp_path: Path, names: str, sizes: Sizes, kind: str) -> None:
    assert _sizes(_read(_shards(tmp_path, names, kind))) == sizes


@pytest.mark.parametrize(("names", "sizes", "classes"), FOLDERS)
def test_folders_are_of_the_split_that_they_name(
    tmp_path: Path, names: str, sizes: Sizes, classes: list[str]
) -> None:
    source = _read(_images(tmp_path, names))
    assert (_sizes(source), list(source.classes)) == (sizes, classes)


ARRAYS: list[tuple[str, Sizes, bool, str]] = [  # whether train has labels, and the arrays that are not read
    ("x_train y_train x_val y_val", TRAIN_VAL, True, ""),
    ("x_train x_valid x_test", ALL, False, ""),
    ("X_train Y_train x_dev y_dev", TRAIN_VAL, True, ""),
    ("train_images train_labels val_images mean", TRAIN_VAL, True, "mean"),
    ("xTrain yTrain", {"train": 1}, True, ""),
    ("x_train y_tran x_extra mean", {"train": 1}, False, "y_tran, x_extra, mean"),
]


@pytest.mark.parametrize(("names", "sizes", "labeled", "unread"), ARRAYS)
def test_arrays_are_of_the_split_that_they_name(
    tmp_path: Path, names: str, sizes: Sizes, labeled: bool, unread: str
) -> None:
    path, source = tmp_path / "set.npz", _read(_arrays(tmp_path, names))
    assert (_sizes(source), source.splits["train"].labels is not None) == (sizes, labeled)
    assert source.notes == ((f"ignored arrays in {path}: {unread}",) if unread else ())


# What each of three readings gives: None is a refusal.
AMBIGUOUS: list[tuple[str, str, str, Sizes]] = [
    ("train/a dog/a", "train/, which names a split, and dog/a/", "folder", {"train": 1}),
    ("train/a val/a dev/a", "dev/ and val/, two names of the split validation", "folder", VAL_TWICE),
    ("train/a train/b x/train/b", "has folders above its folders of splits (x/)", "folder", {"train": 3}),
    ("cats_train dogs_train", "cats_train/ and dogs_train/, two names", "folder", {"train": 2}),
    ("Train-000 000", "Train-000.tar, which names a split, and 000.tar", "tar", {"train": 1}),
    ("train-0 val-0 dev-0", "dev-0.parquet and val-0.parquet, two names", "parquet", VAL_TWICE),
]  # fmt: skip


@pytest.mark.parametrize(("names", "message", "kind", "sizes"), AMBIGUOUS)
def test_what_has_two_readings_is_refused_with_both(
    tmp_path: Path, names: str, message: str, kind: str, sizes: Sizes
) -> None:
    root = _images(tmp_path, names) if kind == "folder" else _shards(tmp_path, names, kind)
    refused = refusal(_read, root)
    assert all(each in refused for each in (message, "data.splits=names (", "data.splits=none ("))
    assert _sizes(_read(root, "names")) == sizes
    none, shown = _read(root, "none"), data_show(root, "data.splits=none")
    assert _sizes(none) == {"train": len(names.split())} == {"train": shown.splits["train"].images}
    folders = sorted({each.split("/")[0] for each in names.split()})
    assert list(none.classes) == (folders if kind == "folder" else ["0"] if kind == "parquet" else [])


def test_arrays_have_another_fingerprint_in_each_reading(tmp_path: Path) -> None:
    path = _arrays(tmp_path, "x_train x")
    assert "x_train, which names a split, and x, which does not" in refusal(_read, path)
    names, none = (load(path, splits=each, holdout=0.0) for each in ("names", "none"))
    assert (len(names.train), len(none.train), names.fingerprint == none.fingerprint) == (1, 2, False)


def test_class_names_in_two_unicode_forms_are_one(tmp_path: Path) -> None:
    one, two = (unicodedata.normalize(form, "café") for form in ("NFC", "NFD"))
    source = _read(_images(tmp_path, f"train/{one} train/{two}/2.png train/tea test/{two}"))
    assert source.classes == (one, "tea")
    assert [labels_of(split) for split in source.splits.values()] == [[0, 1, 0], [0]]
