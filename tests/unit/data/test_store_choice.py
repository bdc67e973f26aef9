"""Which store a dataset is kept in, what is told of it before, and that no number depends on it."""

import logging
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from isopix.core.overrides import override, parse
from isopix.data import dataset, store_choice
from isopix.data.augment import ScaleCrop
from isopix.data.content_hash import content_hash
from isopix.data.dataset import DataConfig, ImageDataset, load_dataset
from isopix.data.measurement import images_hash
from isopix.data.store_choice import MAX_DISK_FRACTION, MIN_ENCODED, automatic_store, estimate_stores
from tests.unit.data.conftest import Draw
from tests.unit.data.refusal import refusal

GIB = 2**30


@pytest.mark.parametrize(
    ("nbytes", "free", "store"),
    [
        (MIN_ENCODED, 0, "pixels"),
        (MIN_ENCODED + 1, 0, "encoded"),
        (300 * GIB, 1000 * GIB, "encoded"),
        (300 * GIB, 1300 * GIB, "pixels"),
        (3 * GIB, 2 * GIB, "pixels"),
    ],
)
def test_auto_encodes_what_is_large_and_takes_much_of_the_free_disk(
    nbytes: int, free: int, store: str
) -> None:
    assert (MIN_ENCODED, MAX_DISK_FRACTION) == (4 * GIB, 0.25), "as the documentation states"
    assert automatic_store(nbytes, free) == store


@pytest.fixture
def config(classes: Path) -> DataConfig:
    crop = ScaleCrop(min_side=12, max_side=16, crop=10)
    return DataConfig(source=str(classes), rows=4, cols=4, augment=crop, seed=3)


def _photo(folder: Path, number: int, size: tuple[int, int], **options: object) -> bytes:
    """Write a smooth JPEG of this width and height, and return its content."""
    noise = np.random.default_rng(number).integers(0, 256, (5, 5, 3), dtype=np.uint8)
    path = folder / f"{number}.jpg"
    Image.fromarray(noise).resize(size).save(path, **options)
    return path.read_bytes()


def test_jpeg_files_that_are_not_resized_are_kept_as_they_are(tmp_path: Path) -> None:
    """Upright, lying, rotated by EXIF, gray and larger ones have the pixels of the other store."""
    folder, exif = tmp_path / "photos", Image.Exif()
    folder.mkdir()
    exif[0x0112] = 6
    small = [_photo(folder, i, size) for i, size in enumerate([(20, 30), (30, 20), (21, 21)])]
    small += [_photo(folder, 3, (22, 30), exif=exif), _photo(folder, 4, (25, 25), quality=30)]
    large = [_photo(folder, 5, (80, 60)), _photo(folder, 6, (400, 300))]
    crop = ScaleCrop(min_side=12, max_side=16, crop=10)  # keeps a shorter side of 26
    config = DataConfig(source=str(folder), rows=8, cols=8, augment=crop, holdout=0.0)
    stores = [replace(config, store=store) for store in ("pixels", "encoded")]
    pixels, encoded = (load_dataset(each, cache=tmp_path / "cache").train for each in stores)
    [content] = [path.read_bytes() for path in (tmp_path / "cache").glob("*/train.full.bin")]
    assert all(each in content for each in small)
    assert not any(each in content for each in large)
    assert pixels.full_resolution is not None
    assert encoded.full_resolution is not None
    ours, theirs = encoded.full_resolution, pixels.full_resolution
    assert all(map(np.array_equal, ours.images(), theirs.images()))
    for name in ("heights", "widths"):
        assert torch.equal(getattr(ours, name), getattr(theirs, name)), name


def _images(data: ImageDataset) -> list[torch.Tensor]:
    return [split.images[:] for split in (data.train, data.validation, data.test)]


@pytest.mark.parametrize(
    "changes",
    [
        [],
        ["crop=random"],
        ["train_on_validation=true"],
        ["limit=7"],
        ["labels_per_class=2", "subset=1"],
    ],
    ids=str,
)
def test_both_stores_give_the_same_dataset(config: DataConfig, tmp_path: Path, changes: list[str]) -> None:
    config = override(config, parse(changes))
    pixels, encoded = (
        load_dataset(replace(config, store=store), cache=tmp_path / "cache")
        for store in ("pixels", "encoded")
    )
    assert not encoded.train.is_decoded
    assert pixels.train.is_decoded
    assert pixels.fingerprint == encoded.fingerprint
    assert content_hash(pixels) == content_hash(encoded)
    for ours, theirs in zip(_images(encoded), _images(pixels), strict=True):
        assert torch.equal(ours, theirs)
    for name in ("train", "validation", "test"):
        ours, theirs = getattr(encoded, name), getattr(pixels, name)
        assert torch.equal(ours.labels, theirs.labels)
        assert torch.equal(ours.hashes, theirs.hashes)
        without = replace(ours, hashes=None), replace(theirs, hashes=None)
        assert images_hash(without[0]) == images_hash(without[1])
        assert (len(ours), ours.available, ours.nbytes) == (len(theirs), theirs.available, theirs.nbytes)


def test_copies_are_left_out_of_both_stores_alike(classes: Path, tmp_path: Path, draw: Draw) -> None:
    """A test folder that holds copies of training images and one other."""
    root = tmp_path / "with-test"
    shutil.copytree(classes, root / "train")
    draw(root / "test" / "dog" / "own.png", seed=999)
    for i in range(3):
        (root / "test" / "cat").mkdir(exist_ok=True)
        shutil.copy(classes / "cat" / f"{i:02}.png", root / "test" / "cat" / f"copy-{i}.png")
    config = DataConfig(source=str(root), rows=4, cols=4)
    sets = [load_dataset(replace(config, store=each), cache=tmp_path) for each in ("pixels", "encoded")]
    assert [(dict(each.left_out), each.copies, len(each.test)) for each in sets] == [
        ({"test": 3}, sets[0].copies, 1)
    ] * 2


def _spy(monkeypatch: pytest.MonkeyPatch, threshold: int) -> None:
    monkeypatch.setattr(store_choice, "MIN_ENCODED", threshold)
    monkeypatch.setattr(store_choice, "SAMPLE", 4)
    monkeypatch.setattr(store_choice, "free_bytes", lambda cache: 0)


def test_auto_decides_by_the_bytes_of_all_images(
    config: DataConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nbytes = load_dataset(config, cache=tmp_path / "whole")
    total = sum(split.nbytes for split in (nbytes.train, nbytes.validation, nbytes.test))
    held_out = 3 * 8 * 8 * (len(nbytes.validation) + len(nbytes.test))
    assert nbytes.validation.full_resolution is not None, "held out of images that are kept whole"
    assert held_out
    for threshold, decoded in ((total, True), (total - 1, False)):
        _spy(monkeypatch, threshold)
        data = load_dataset(config, cache=tmp_path / str(threshold))
        assert data.train.is_decoded == decoded


def test_auto_reads_the_store_that_the_cache_has(
    config: DataConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_dataset(replace(config, store="encoded"), cache=tmp_path)
    assert not load_dataset(config, cache=tmp_path).train.is_decoded
    load_dataset(replace(config, store="pixels"), cache=tmp_path)
    assert load_dataset(config, cache=tmp_path).train.is_decoded


def test_the_estimate_counts_the_bytes_that_are_then_written(config: DataConfig, tmp_path: Path) -> None:
    source = dataset.open_source(config)()
    estimate = estimate_stores(source, dataset._preprocess_configs(source, config))
    for store, nbytes in estimate.nbytes.items():
        cache = tmp_path / store
        load_dataset(replace(config, store=store), cache=cache)
        ends = (".bin",) if store == "encoded" else (".images.npy", ".pixels.npy")
        written = sum(path.stat().st_size for path in cache.rglob("*") if path.name.endswith(ends))
        assert nbytes == pytest.approx(written, abs=300), "but for the headers of two files"
    assert estimate.num_images == 40
    assert 0 < estimate.seconds["pixels"] < estimate.seconds["encoded"]


def test_long_work_is_told_before_it_starts(
    config: DataConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    _spy(monkeypatch, 0)
    monkeypatch.setattr(store_choice, "SHORT", 0.0)
    told = []
    real = dataset.cached_source

    def cached(*given: object) -> object:
        told.extend(caplog.messages)
        return real(*given)

    monkeypatch.setattr(dataset, "cached_source", cached)
    with caplog.at_level(logging.INFO, "isopix"):
        load_dataset(config, cache=tmp_path)
        [text] = told
        load_dataset(config, cache=tmp_path)
    assert told == [text, text], "the second time it is in the cache"
    start, end = "40 images are not in the cache yet; pixels ", "; writing encoded (data.store=auto)"
    assert text.startswith(start)
    assert text.endswith(end)
    assert "\n" not in text


def test_short_work_is_not_told(config: DataConfig, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "isopix"):
        load_dataset(config, cache=tmp_path)
    assert caplog.messages == []


def test_unknown_stores_and_workers_are_refused() -> None:
    text = refusal(lambda: override(DataConfig(), parse(["store=jpeg"])))
    assert all(word in text for word in ("jpeg", "auto", "pixels", "encoded"))
    assert "-1" in refusal(lambda: override(DataConfig(), parse(["workers=-1"])))
