"""What the cache promises: the same splits again, and nothing that was damaged."""

import dataclasses
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import PIL
import pytest
import torch

from isopix.data import cache
from isopix.data.cache import CachedSource, cached_source
from isopix.data.encoded import EncodedImages
from isopix.data.preprocess import Encode, PreprocessConfig, preprocess
from isopix.data.sources.base import Source, SourceSplit
from isopix.data.store import STORES, StoreName
from isopix.storage.artifact import MANIFEST_FILE
from tests.unit.data.refusal import refusal
from tests.unit.data.shards import encoded

RAW = [encoded(0), b"junk", encoded(1), encoded(2)]


def _source(content_hash: str = "one") -> Source:
    labels = np.arange(len(RAW))
    split = SourceSplit(len(RAW), lambda start, stop: iter(RAW[start:stop]), lambda i: f"picture {i}", labels)
    return Source("set", {"train": split}, ("a", "b", "c", "d"), content_hash)


def _cached(
    folder: Path,
    source: Source | None = None,
    full_side: int | None = 4,
    rows: int = 4,
    store: StoreName = "pixels",
) -> CachedSource:
    config = PreprocessConfig(rows=rows, cols=8, resample="area", crop_seed=None, full_side=full_side)
    return cached_source(source or _source(), {"train": config}, folder, STORES[store])


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[SourceSplit]:
    """A split for each time that pictures were decoded."""
    calls: list[SourceSplit] = []

    def counted(split: SourceSplit, config: PreprocessConfig, encode: Encode, *, start: int) -> object:
        calls.append(split)
        return preprocess(split, config, encode, start=start)

    monkeypatch.setattr(cache, "preprocess", counted)
    return calls


def test_the_second_time_nothing_is_decoded_and_all_is_equal(
    tmp_path: Path, decoded: list[SourceSplit]
) -> None:
    first, second = _cached(tmp_path), _cached(tmp_path)
    assert len(decoded) == 1
    one, other = first.splits["train"], second.splits["train"]
    assert torch.equal(one.images, other.images)
    assert one.labels is not None
    assert other.labels is not None
    assert torch.equal(one.labels, other.labels)
    assert one.full_resolution is not None
    assert other.full_resolution is not None
    assert torch.equal(one.full_resolution.pixels, other.full_resolution.pixels)
    assert (first.key, first.bad_files) == (second.key, second.bad_files)


def test_bad_files_are_skipped_with_their_groups(tmp_path: Path) -> None:
    split = replace(_source().splits["train"], groups=np.array([5, 6, 7, 5]))
    for _ in ("written", "read again"):
        cached = _cached(tmp_path, replace(_source(), splits={"train": split}))
        assert cached.splits["train"].groups is not None
        assert cached.splits["train"].groups.tolist() == [5, 7, 5]
    assert _cached(tmp_path, _source("two")).splits["train"].groups is None


def test_bad_files_are_skipped_with_their_labels_and_recorded(tmp_path: Path) -> None:
    cached = _cached(tmp_path)
    assert [(bad.path, bad.reason) for bad in cached.bad_files] == [
        ("picture 1", "not a JPEG, PNG, WEBP, BMP, GIF or TIFF image")
    ]
    assert cached.splits["train"].labels is not None
    assert cached.splits["train"].labels.tolist() == [0, 2, 3]
    assert cached.splits["train"].images.shape == (3, 3, 4, 8)


def test_bad_files_are_named_by_the_current_source(tmp_path: Path) -> None:
    _cached(tmp_path)
    moved = _source()
    split = dataclasses.replace(moved.splits["train"], image_name=lambda i: f"moved {i}")
    cached = _cached(tmp_path, dataclasses.replace(moved, splits={"train": split}))
    assert [bad.path for bad in cached.bad_files] == ["moved 1"]


def test_the_key_depends_on_content_and_preprocessing(tmp_path: Path) -> None:
    keys = {
        _cached(tmp_path).key,
        _cached(tmp_path, _source("two")).key,
        _cached(tmp_path, full_side=None).key,
        _cached(tmp_path, rows=5).key,
    }
    assert len(keys) == 4


def test_another_pillow_has_a_key_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = _cached(tmp_path).key
    monkeypatch.setattr(PIL, "__version__", "0.0")
    assert _cached(tmp_path).key != key


def test_files_are_plain_npy(tmp_path: Path) -> None:
    cached = _cached(tmp_path)
    images = np.load(tmp_path / cached.key / "train.images.npy")
    assert np.array_equal(images, cached.splits["train"].images.numpy())


def _flip_a_bit(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def _truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


COMMON = [MANIFEST_FILE, "train.hashes.npy", "train.shapes.npy"]
FILES: dict[StoreName, list[str]] = {
    "pixels": ["train.images.npy", "train.pixels.npy"],
    "encoded": [f"train.{part}.{end}" for part in ("images", "full") for end in ("bin", "offsets.npy")],
}


@pytest.mark.parametrize("damage", [_flip_a_bit, _truncate, Path.unlink])
@pytest.mark.parametrize(
    ("store", "file"), [(store, file) for store, files in FILES.items() for file in [*COMMON, *files]]
)
def test_a_damaged_cache_is_written_anew(
    tmp_path: Path,
    decoded: list[SourceSplit],
    damage: Callable[[Path], None],
    store: StoreName,
    file: str,
) -> None:
    images = _cached(tmp_path, store=store).splits["train"].images[:].clone()
    damage(next(tmp_path.glob(f"*/{file}")))
    assert torch.equal(_cached(tmp_path, store=store).splits["train"].images[:], images)
    assert len(decoded) == 2


def test_the_files_of_a_store_are_these(tmp_path: Path) -> None:
    for store, files in FILES.items():
        folder = tmp_path / store / _cached(tmp_path / store, store=store).key
        assert sorted(path.name for path in folder.iterdir()) == sorted([*COMMON, *files])


def test_stores_differ_in_their_folder_alone(tmp_path: Path) -> None:
    pixels, encoded = (_cached(tmp_path, store=store) for store in ("pixels", "encoded"))
    assert pixels.key != encoded.key
    assert pixels.content_hash == encoded.content_hash
    assert pixels.bad_files == encoded.bad_files
    ours, theirs = encoded.splits["train"], pixels.splits["train"]
    assert isinstance(ours.images, EncodedImages)
    assert isinstance(theirs.images, torch.Tensor)
    assert torch.equal(ours.images[:], theirs.images)
    for name in ("hashes", "labels"):
        assert torch.equal(getattr(ours, name), getattr(theirs, name))
    assert ours.full_resolution is not None
    assert theirs.full_resolution is not None
    both = zip(ours.full_resolution.images(), theirs.full_resolution.images(), strict=True)
    assert all(np.array_equal(*pair) for pair in both)
    assert ours.nbytes == theirs.nbytes


def test_a_changed_manifest_is_not_trusted(tmp_path: Path, decoded: list[SourceSplit]) -> None:
    _cached(tmp_path)
    manifest = next(tmp_path.glob(f"*/{MANIFEST_FILE}"))
    manifest.write_text(manifest.read_text().replace("not a JPEG", "hot a JPEG"))
    assert _cached(tmp_path).bad_files[0].reason.startswith("not a JPEG")
    assert len(decoded) == 2


def test_writing_to_the_tensors_never_reaches_the_cache(tmp_path: Path, decoded: list[SourceSplit]) -> None:
    _cached(tmp_path).splits["train"].images.fill_(0)
    assert _cached(tmp_path).splits["train"].images.any()
    assert len(decoded) == 1


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError, ValueError])
def test_a_failure_before_anything_is_saved_leaves_no_images(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    def fail(split: SourceSplit, config: PreprocessConfig, encode: Encode, *, start: int) -> object:
        raise error

    monkeypatch.setattr(cache, "preprocess", fail)
    with pytest.raises(error):
        _cached(tmp_path)
    assert [path.suffix for path in tmp_path.iterdir()] == [".lock"]


def test_a_cache_that_cannot_be_written_ends_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert refusal(_cached, tmp_path / "file", kind=RuntimeError) == (
        f"image cache {tmp_path}/file cannot be written (File exists); set ISOPIX_CACHE to another folder"
    )
