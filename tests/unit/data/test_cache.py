"""What the cache promises: the same splits again, and nothing that was damaged."""

import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np
import PIL
import pytest
import torch

from isopix.data import cache
from isopix.data.cache import CachedSource, cached_source
from isopix.data.preprocess import PreprocessConfig, preprocess
from isopix.data.sources.base import Source, SourceSplit
from isopix.storage.artifact import MANIFEST_FILE
from tests.unit.data.refusal import refusal
from tests.unit.data.tables import encoded

PICTURES = [encoded(0), b"junk", encoded(1), encoded(2)]


def _source(digest: str = "one") -> Source:
    labels = np.arange(len(PICTURES))
    part = SourceSplit(len(PICTURES), lambda: iter(PICTURES), lambda i: f"picture {i}", labels)
    return Source("set", {"train": part}, ("a", "b", "c", "d"), digest)


def _stored(folder: Path, source: Source | None = None, wide: int | None = 4, rows: int = 4) -> CachedSource:
    how = PreprocessConfig(rows=rows, cols=8, resample="area", crop_seed=None, wide=wide)
    return cached_source(source or _source(), {"train": how}, folder)


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[SourceSplit]:
    """A part for each time that pictures were decoded."""
    calls: list[SourceSplit] = []

    def counted(part: SourceSplit, how: PreprocessConfig) -> object:
        calls.append(part)
        return preprocess(part, how)

    monkeypatch.setattr(cache, "prepare", counted)
    return calls


def test_the_second_time_nothing_is_decoded_and_all_is_equal(
    tmp_path: Path, decoded: list[SourceSplit]
) -> None:
    first, second = _stored(tmp_path), _stored(tmp_path)
    assert len(decoded) == 1
    one, other = first.splits["train"], second.splits["train"]
    assert torch.equal(one.images, other.images)
    assert one.labels is not None
    assert other.labels is not None
    assert torch.equal(one.labels, other.labels)
    assert one.full_resolution is not None
    assert other.full_resolution is not None
    assert torch.equal(one.full_resolution.pixels, other.full_resolution.pixels)
    assert (first.key, first.bad) == (second.key, second.bad)


def test_bad_pictures_are_left_out_with_their_labels_and_remembered(tmp_path: Path) -> None:
    held = _stored(tmp_path)
    assert [(bad.path, bad.reason) for bad in held.bad] == [
        ("picture 1", "not a JPEG, PNG, WEBP, BMP, GIF or TIFF image")
    ]
    assert held.splits["train"].labels is not None
    assert held.splits["train"].labels.tolist() == [0, 2, 3]
    assert held.splits["train"].images.shape == (3, 3, 4, 8)


def test_bad_pictures_are_named_by_the_source_of_today(tmp_path: Path) -> None:
    _stored(tmp_path)
    moved = _source()
    part = dataclasses.replace(moved.splits["train"], name=lambda i: f"moved {i}")
    held = _stored(tmp_path, dataclasses.replace(moved, parts={"train": part}))
    assert [bad.path for bad in held.bad] == ["moved 1"]


def test_the_key_follows_content_and_preparation(tmp_path: Path) -> None:
    keys = {
        _stored(tmp_path).key,
        _stored(tmp_path, _source("two")).key,
        _stored(tmp_path, wide=None).key,
        _stored(tmp_path, rows=5).key,
    }
    assert len(keys) == 4


def test_another_pillow_has_a_key_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = _stored(tmp_path).key
    monkeypatch.setattr(PIL, "__version__", "0.0")
    assert _stored(tmp_path).key != key


def test_files_are_plain_npy(tmp_path: Path) -> None:
    held = _stored(tmp_path)
    images = np.load(tmp_path / held.key / "train.images.npy")
    assert np.array_equal(images, held.splits["train"].images.numpy())


def _flip_a_bit(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def _truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


@pytest.mark.parametrize("damage", [_flip_a_bit, _truncate, Path.unlink])
@pytest.mark.parametrize(
    "file", [MANIFEST_FILE, "train.images.npy", "train.labels.npy", "train.pixels.npy", "train.shapes.npy"]
)
def test_a_damaged_cache_is_made_anew(
    tmp_path: Path, decoded: list[SourceSplit], damage: Callable[[Path], None], file: str
) -> None:
    images = _stored(tmp_path).splits["train"].images.clone()
    damage(next(tmp_path.glob(f"*/{file}")))
    assert torch.equal(_stored(tmp_path).splits["train"].images, images)
    assert len(decoded) == 2


def test_a_changed_record_is_not_believed(tmp_path: Path, decoded: list[SourceSplit]) -> None:
    _stored(tmp_path)
    record = next(tmp_path.glob(f"*/{MANIFEST_FILE}"))
    record.write_text(record.read_text().replace("not a JPEG", "hot a JPEG"))
    assert _stored(tmp_path).bad[0].reason.startswith("not a JPEG")
    assert len(decoded) == 2


def test_writing_to_the_tensors_never_reaches_the_cache(tmp_path: Path, decoded: list[SourceSplit]) -> None:
    _stored(tmp_path).splits["train"].images.fill_(0)
    assert _stored(tmp_path).splits["train"].images.any()
    assert len(decoded) == 1


def test_a_failure_while_decoding_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(part: SourceSplit, how: PreprocessConfig) -> object:
        raise KeyboardInterrupt

    monkeypatch.setattr(cache, "prepare", fail)
    with pytest.raises(KeyboardInterrupt):
        _stored(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_cache_that_cannot_be_written_ends_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert refusal(_stored, tmp_path / "file", kind=RuntimeError) == (
        f"image cache {tmp_path}/file cannot be written (File exists); set ISOPIX_CACHE to another folder"
    )
