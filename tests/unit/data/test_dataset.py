"""From settings to image sets."""

import csv
import dataclasses
import shutil
from pathlib import Path

import pytest
import torch

from isopix.core.overrides import override
from isopix.data.augment import PadCropFlip, ScaleCrop
from isopix.data.batches import Batches
from isopix.data.dataset import DataConfig, ImageDataset, load_dataset
from isopix.data.results import BadFile
from tests.unit.data.conftest import Draw
from tests.unit.data.refusal import refusal


def _sizes(images: ImageDataset) -> tuple[int, int, int]:
    return len(images.train), len(images.validation), len(images.test)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rows": 0}, "rows is 0; allowed: 1 to 1024"),
        ({"cols": 5000}, "cols is 5000; allowed: 1 to 1024"),
        ({"holdout": 0.5}, "holdout is 0.5; allowed: 0 or more and below 0.5"),
        ({"limit": 0}, "limit is 0; allowed: 1 or more"),
        ({"rows": 4, "augment.kind": "pad_crop_flip"}, "pad 4 does not fit images of 4x32; allowed: below 4"),
    ],
)
def test_impossible_settings_are_rejected_in_one_line(changes: dict[str, object], message: str) -> None:
    assert refusal(override, DataConfig(), changes) == message


def test_splits_of_one_source_are_disjoint_and_complete(classes: Path) -> None:
    images = load_dataset(DataConfig(source=str(classes), rows=8, cols=8))
    assert sum(_sizes(images)) == 40
    assert min(_sizes(images)) > 0
    splits = (images.train, images.validation, images.test)
    assert len({image.numpy().tobytes() for split in splits for image in split.images}) == 40


def _own_splits(folder: Path, draw: Draw, *splits: str) -> None:
    """40 images of two classes in each split, all different."""
    for i, split in enumerate(splits):
        for j in range(40):
            draw(folder / split / ("cat", "dog")[j % 2] / f"{j:02}.png", seed=1000 * i + j)


def test_own_splits_are_used_as_they_are(tmp_path: Path, draw: Draw) -> None:
    _own_splits(tmp_path / "set", draw, "train", "val", "test")
    draw(tmp_path / "set" / "test" / "cat" / "more.png", seed=5000)
    assert _sizes(load_dataset(DataConfig(source=str(tmp_path / "set"), rows=8, cols=8))) == (40, 40, 41)


def test_only_the_missing_split_is_held_out(tmp_path: Path, draw: Draw) -> None:
    _own_splits(tmp_path / "set", draw, "train", "test")
    train, validation, test = _sizes(load_dataset(DataConfig(source=str(tmp_path / "set"), rows=8, cols=8)))
    assert (train + validation, test) == (40, 40)
    assert 0 < validation < 10


def test_nothing_is_held_out_if_so_asked(classes: Path) -> None:
    assert _sizes(load_dataset(DataConfig(source=str(classes), rows=8, cols=8, holdout=0.0))) == (40, 0, 0)


def test_folding_back_moves_validation_into_train_and_leaves_test_alone(classes: Path) -> None:
    data = DataConfig(source=str(classes), rows=8, cols=8)
    before, after = load_dataset(data), load_dataset(dataclasses.replace(data, train_on_validation=True))
    train, validation, test = _sizes(before)
    assert _sizes(after) == (train + validation, 0, test)
    assert torch.equal(before.test.images, after.test.images)


@pytest.mark.parametrize("own", [True, False])
def test_folding_back_under_a_limit_joins_what_both_splits_held(
    tmp_path: Path, draw: Draw, own: bool
) -> None:
    _own_splits(tmp_path / "set", draw, *(("train", "val") if own else ("train",)))
    data = DataConfig(source=str(tmp_path / "set"), rows=8, cols=8, limit=3)
    before, after = load_dataset(data), load_dataset(dataclasses.replace(data, train_on_validation=True))
    both = torch.cat([before.train.images, before.validation.images])
    assert _sizes(after) == (6, 0, 3)
    assert sorted(map(bytes, after.train.images.numpy())) == sorted(map(bytes, both.numpy()))


@pytest.mark.parametrize("augment", [PadCropFlip(), ScaleCrop()])
def test_own_validation_images_are_folded_back_too(
    tmp_path: Path, draw: Draw, augment: PadCropFlip | ScaleCrop
) -> None:
    _own_splits(tmp_path / "set", draw, "train", "val")
    images = load_dataset(
        DataConfig(source=str(tmp_path / "set"), rows=8, cols=8, train_on_validation=True, augment=augment)
    )
    train, validation, test = _sizes(images)
    assert (train + test, validation) == (80, 0)
    assert train > 70
    assert Batches(images.train, batch_size=70, augment=augment).batch(0)[0].shape == (70, 3, 8, 8)


def test_a_limit_takes_as_many_images_of_each_class(classes: Path) -> None:
    few = load_dataset(DataConfig(source=str(classes), rows=8, cols=8, limit=10))
    assert few.train.labels is not None
    assert few.train.labels.bincount().tolist() == [5, 5]


def test_a_photo_copied_into_the_folder_stays_with_its_original(classes: Path) -> None:
    data = DataConfig(source=str(classes), rows=8, cols=8)
    before = load_dataset(data)
    for path in sorted((classes / "cat").iterdir())[:10]:
        shutil.copy(path, classes / "dog" / f"copy-{path.name}")
    after = load_dataset(data)
    for name in ("train", "validation", "test"):
        assert _pixels(before, name) == _pixels(after, name)


def _pixels(images: ImageDataset, split: str) -> set[bytes]:
    return {image.numpy().tobytes() for image in getattr(images, split).images}


def test_the_paper_crops_are_drawn_from_full_resolution_images(tmp_path: Path, draw: Draw) -> None:
    for i in range(10):
        draw(tmp_path / f"{i}.png", seed=i, size=(200, 150))
    images = load_dataset(DataConfig(source=str(tmp_path), rows=8, cols=8, augment=ScaleCrop()))
    assert images.train.full_resolution is not None
    assert images.train.full_resolution.heights.tolist() == [28] * len(
        images.train
    )  # 2 * 8 * 384 / 224, rounded up
    assert Batches(images.train, batch_size=5, augment=ScaleCrop()).batch(0)[0].shape == (5, 3, 8, 8)


def test_the_fingerprint_follows_content_preprocessing_and_membership(classes: Path, draw: Draw) -> None:
    data = DataConfig(source=str(classes), rows=8, cols=8)
    first = load_dataset(data).fingerprint
    assert load_dataset(data).fingerprint == first
    others = [
        load_dataset(dataclasses.replace(data, rows=9)).fingerprint,
        load_dataset(dataclasses.replace(data, resample="bicubic")).fingerprint,
        load_dataset(dataclasses.replace(data, crop="random")).fingerprint,
        load_dataset(dataclasses.replace(data, holdout=0.2)).fingerprint,
        load_dataset(dataclasses.replace(data, limit=2)).fingerprint,
        load_dataset(dataclasses.replace(data, seed=1)).fingerprint,
    ]
    draw(classes / "cat" / "00.png", seed=999)
    assert len({first, *others, load_dataset(data).fingerprint}) == 8


def _spoil(folder: Path, count: int) -> list[Path]:
    files = sorted(folder.glob("*.png"))[:count]
    for file in files:
        file.write_bytes(b"")
    return files


def test_up_to_one_per_cent_of_bad_files_are_skipped_and_listed(tmp_path: Path, draw: Draw) -> None:
    for i in range(100):
        draw(tmp_path / "set" / f"{i:03}.png", seed=i)
    (bad,) = _spoil(tmp_path / "set", 1)
    images = load_dataset(
        DataConfig(source=str(tmp_path / "set"), rows=8, cols=8),
        bad_files_csv=tmp_path / "run" / "bad-files.csv",
    )
    assert sum(_sizes(images)) == 99
    assert [(each.path, each.reason) for each in images.bad_files] == [(str(bad), "empty file")]
    assert images.bad_files_csv == tmp_path / "run" / "bad-files.csv"
    with images.bad_files_csv.open(newline="") as file:
        assert list(csv.reader(file)) == [["path", "reason"], [str(bad), "empty file"]]


def test_the_first_bad_files_are_named_in_notes_and_the_others_counted(tmp_path: Path) -> None:
    blank = dataclasses.replace(load_dataset(DataConfig(limit=20)), copies=())
    files = tuple(BadFile(f"{i}.png", "empty file") for i in range(1234))
    named = [f"skipped {i}.png: empty file" for i in range(6)]
    assert list(dataclasses.replace(blank, bad_files=files[:6]).notes) == named
    many = dataclasses.replace(blank, bad_files=files, bad_files_csv=tmp_path / "bad.csv")
    rest = f"skipped 1,229 more unreadable images: {tmp_path / 'bad.csv'}"
    assert list(many.notes) == [*named[:5], rest]


@pytest.mark.parametrize("again", [False, True])
def test_more_bad_files_stop_the_run(tmp_path: Path, draw: Draw, again: bool) -> None:
    for i in range(100):
        draw(tmp_path / "set" / f"{i:03}.png", seed=i)
    bad = _spoil(tmp_path / "set", 2)
    data, report = (
        DataConfig(source=str(tmp_path / "set"), rows=8, cols=8),
        tmp_path / "bad-files.csv",
    )
    for _ in range(1 + again):
        message = refusal(lambda: load_dataset(data, bad_files_csv=report))
    assert message == (
        f"2 of 100 images cannot be read, above the limit of 1%; first: {bad[0]} (empty file); "
        f"all: {report}; "
        "remove or replace them"
    )
    assert len(report.read_text().splitlines()) == 3


def test_labels_are_asked_for_by_name(tmp_path: Path, draw: Draw) -> None:
    for i in range(10):
        draw(tmp_path / "flat" / f"{i}.png", seed=i)
    images = load_dataset(DataConfig(source=str(tmp_path / "flat"), rows=8, cols=8))
    message = "probe needs labels; dataset 'flat' has none in train, validation, test: in a folder"
    assert refusal(images.require_labels, "probe").startswith(message)


def test_one_class_is_too_few_where_labels_are_needed(classes: Path) -> None:
    shutil.rmtree(classes / "dog")
    images = load_dataset(DataConfig(source=str(classes), rows=8, cols=8))
    assert "two classes; those of dataset 'pets' are all of cat" in refusal(images.require_labels, "probe")


@pytest.mark.slow
def test_cifar10_has_its_published_sizes_and_mean(real_data: Path) -> None:
    images = load_dataset(DataConfig(source=str(real_data / "cifar10"), holdout=0.0))
    assert _sizes(images) == (50_000, 0, 10_000)
    mean = images.train.images.sum((0, 2, 3), dtype=torch.int64) / (50_000 * 32 * 32 * 255)
    assert mean.tolist() == pytest.approx([0.491400, 0.482158, 0.446531], abs=1e-6)
