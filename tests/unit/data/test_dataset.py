"""From settings to splits: held-out images, limits, few labels, unreadable files, names and known sources."""

import csv
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from isopix.core.overrides import override
from isopix.core.random import generator
from isopix.data.dataset import DataConfig, ImageDataset
from isopix.data.load import load_dataset
from isopix.data.sources.base import is_known_source, remember_source, require_known_source
from isopix.data.splits import balanced_subset, count_or_fraction
from isopix.data.survey import image_names
from isopix.verbs.data import data_show
from tests.unit.data.conftest import Draw
from tests.unit.data.refusal import refusal


def load(path: Path, **changes: object) -> ImageDataset:
    data = DataConfig(source=str(path), rows=8, cols=8, store="pixels")
    return load_dataset(override(data, changes))


def _sizes(images: ImageDataset) -> tuple[int, int, int]:
    return len(images.train), len(images.validation), len(images.test)


def _pixels(*splits: torch.Tensor) -> list[bytes]:
    return sorted(image.numpy().tobytes() for images in splits for image in images)


def test_impossible_settings_are_rejected_in_one_line() -> None:
    changes = {"rows": 4, "augment.kind": "pad_crop_flip"}
    assert "pad 4 does not fit images of 4x32; allowed: below 4" in refusal(override, DataConfig(), changes)
    for labels in ("x", "0%", -3, "101%", "4.5", "1/0%"):
        assert "or a percentage of them" in refusal(override, DataConfig(), {"labels_per_class": labels})


def test_splits_of_one_source_are_disjoint_and_complete(classes: Path) -> None:
    images = load(classes)
    assert sum(_sizes(images)) == 40
    assert min(_sizes(images)) > 0
    assert len({*_pixels(images.train.images, images.validation.images, images.test.images)}) == 40
    assert _sizes(load(classes, holdout=0.0)) == (40, 0, 0)


def test_16_bit_images_that_use_fewer_are_noted_and_light_by_data_white(tmp_path: Path) -> None:
    levels = np.random.default_rng(0).integers(0, 256, (20, 8, 8)).astype(np.uint16)
    levels[:, 0, 0] = 255
    eight, twelve = tmp_path / "8.npz", tmp_path / "12.npz"
    np.savez(eight, x_train=levels)
    np.savez(twelve, x_train=levels * 16)
    dark, light = (load(twelve, white=white, holdout=0.0) for white in (None, 4095))
    assert "sample is 4,080 of 65,535; data.white=4095" in dark.notes[0]
    assert (data_show(twelve).warnings, light.notes) == (dark.notes, ())
    assert light.fingerprint != dark.fingerprint
    assert _pixels(light.train.images[:, 0]) == sorted(each.astype(np.uint8).tobytes() for each in levels)
    assert "no sample above 255 would be black; data.white=255" in refusal(load, eight)


@pytest.mark.parametrize(("per_class", "counts"), [(4, [4, 4, 4]), (Fraction(1, 4), [8, 3, 5])])
def test_each_class_has_its_number_or_its_fraction_rounded_up(
    per_class: int | Fraction, counts: list[int]
) -> None:
    labels = torch.tensor([0] * 30 + [1] * 10 + [5] * 20)[torch.randperm(60, generator=generator(0, "order"))]
    index = balanced_subset(labels, per_class, generator(0, "subset"))
    assert [int((labels[index] == kind).sum()) for kind in (0, 1, 5)] == counts
    assert len(set(index.tolist())) == len(index)


def test_a_fraction_is_exact() -> None:
    """In floating point 0.07 * 100 is above 7."""
    per_class = count_or_fraction("7%", "labels")
    assert len(balanced_subset(torch.zeros(100, dtype=torch.long), per_class, generator(0, "subset"))) == 7


def test_a_subset_is_of_train_alone() -> None:
    whole, few = (load(Path("digits"), **each) for each in ({}, {"labels_per_class": 4}))
    assert few.train.labels.bincount().tolist() == [4] * 10
    assert {*_pixels(few.train.images)} <= {*_pixels(whole.train.images)}
    assert torch.equal(few.validation.images, whole.validation.images)
    assert torch.equal(few.test.images, whole.test.images)


@pytest.fixture
def photos(tmp_path: Path, draw: Draw) -> Path:
    """100 images in a flat folder."""
    for i in range(100):
        draw(tmp_path / "set" / f"{i:03}.png", seed=i)
    return tmp_path / "set"


def test_up_to_one_per_cent_of_bad_files_are_skipped_and_listed(photos: Path) -> None:
    bad = photos / "005.png"
    bad.write_bytes(b"")
    images = load(photos)
    assert sum(_sizes(images)) == 99
    assert images.notes == (f"skipped {bad}: empty file",)
    listed = images.bad_files_csv
    assert listed
    with listed.open(newline="") as file:
        assert list(csv.reader(file)) == [["path", "reason"], [str(bad), "empty file"]]
    for split in (images.train, images.validation.concat(images.test)):
        names = image_names(DataConfig(source=str(photos), rows=8, cols=8), split)
        separate = (load(Path(name), holdout=0.0).train.images for name in names)
        assert _pixels(split.images) == _pixels(*separate)
    (photos / "006.png").write_bytes(b"")
    message = f"2 of 100 images cannot be read, above the limit of 1%; first: {bad} (empty file); all: "
    for _ in range(2):  # written, and from the cache
        assert refusal(load, photos).startswith(f"{message}{listed.parent}")
    assert "above the limit of 3 (data.max_pixels)" in refusal(partial(load, max_pixels=3), photos)


def test_names_of_images_of_a_source_that_changed_are_refused(photos: Path) -> None:
    images = load(photos)
    config = DataConfig(source=str(photos), rows=8, cols=8)
    for path in sorted(photos.iterdir())[60:]:
        path.unlink()
    assert refusal(image_names, config, images.train).endswith("has changed: it has fewer images than it had")


def test_a_path_of_a_run_is_refused_until_the_user_has_read_it(
    classes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(classes.parent / "state"))
    source = str(classes)
    for known in ("digits", "cifar10"):
        require_known_source(known)
    moved = refusal(require_known_source, str(classes / "moved"))
    assert moved == f"the images of this run are not at {classes}/moved; give --data PATH"
    assert refusal(require_known_source, source) == (
        f"this run was trained on {source}, which you have not used before; to read it, give --data {source}"
    )
    load(classes)
    assert not is_known_source(str(classes / "cat"))
    monkeypatch.chdir(classes.parent)
    remember_source(classes.name)
    Path("link").symlink_to(classes)
    for same in (source, "./pets/cat/..", "link"):
        require_known_source(same)
    assert len((classes.parent / "state" / "isopix" / "known-sources").read_text().split()) == 1


@pytest.mark.slow
def test_cifar10_has_its_published_sizes_and_mean(real_data: Path) -> None:
    images = load_dataset(DataConfig(source=str(real_data / "cifar10"), holdout=0.0))
    assert _sizes(images) == (50_000, 0, 10_000)
    mean = images.train.images.sum((0, 2, 3), dtype=torch.int64) / (50_000 * 32 * 32 * 255)
    assert mean.tolist() == pytest.approx([0.491400, 0.482158, 0.446531], abs=1e-6)
