"""What the cache promises: the same splits again, and nothing that was damaged."""

import shutil
import threading
import time
from collections import namedtuple
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import PIL
import pytest
import torch

from isopix.data import cache
from isopix.data.augment import InceptionCrop, NoAugmentation
from isopix.data.cache import CachedSource, cached_source
from isopix.data.dataset import DataConfig, StoreChoice
from isopix.data.preprocess import preprocess
from isopix.data.sources.base import Source, SourceSplit
from tests.unit.data.refusal import refusal
from tests.unit.data.shards import encoded

RAW = [encoded(0), b"junk", encoded(1), encoded(2)]
Usage = namedtuple("Usage", "free")


def _source(content_hash: str = "one", name: str = "picture") -> Source:
    labels, groups = np.arange(len(RAW)), np.array([5, 6, 7, 5])
    split = SourceSplit(
        len(RAW), lambda start, stop: iter(RAW[start:stop]), lambda i: f"{name} {i}", labels, groups
    )
    return Source("set", {"train": split}, ("a", "b", "c", "d"), content_hash)


def _cached(
    folder: Path, source: Source | None = None, store: StoreChoice = "pixels", **changes: Any
) -> CachedSource:
    config = DataConfig(rows=4, cols=8, augment=InceptionCrop(min_area=1.0), store=store)
    return cached_source(source or _source(), replace(config, **changes), folder)


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[SourceSplit]:
    """A split for each time that pictures were decoded."""
    calls: list[SourceSplit] = []

    def counted(split: SourceSplit, *others: object) -> object:
        calls.append(split)
        time.sleep(0.2)
        return preprocess(split, *others)  # type: ignore[arg-type]

    monkeypatch.setattr(cache, "preprocess", counted)
    return calls


@pytest.mark.parametrize("store", ["pixels", "encoded"])
def test_the_second_time_nothing_is_decoded_and_all_is_equal(
    tmp_path: Path, decoded: list[SourceSplit], store: StoreChoice
) -> None:
    first, second = _cached(tmp_path, store=store), _cached(tmp_path, store=store)
    assert len(decoded) == 1
    one, other = first.splits["train"], second.splits["train"]
    assert torch.equal(one.images[:], other.images[:])
    for name, values in {"labels": [0, 2, 3], "groups": [5, 7, 5], "rows": [0, 2, 3]}.items():
        assert getattr(one, name).tolist() == getattr(other, name).tolist() == values
    assert one.full_resolution is not None
    assert other.full_resolution is not None
    assert all(map(np.array_equal, one.full_resolution.images(), other.full_resolution.images()))
    assert (first.key, first.bad_files) == (second.key, second.bad_files)


def test_the_key_depends_on_content_whole_images_store_and_pillow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [_cached(tmp_path), _cached(tmp_path, store="encoded"), _cached(tmp_path, _source("two"))]
    found.append(_cached(tmp_path, augment=NoAugmentation()))
    monkeypatch.setattr(PIL, "__version__", "0.0")
    found.append(_cached(tmp_path))
    assert len({each.key for each in found}) == len(found)
    assert len({each.content_hash for each in found}) == len(found) - 2
    assert found[0].content_hash == found[1].content_hash == found[-1].content_hash


def _flip_a_bit(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize(("damage", "file"), [(_flip_a_bit, "train.images"), (Path.unlink, "train.full")])
def test_a_damaged_cache_is_written_anew_and_changes_of_tensors_do_not_reach_it(
    tmp_path: Path, decoded: list[SourceSplit], damage: Callable[[Path], None], file: str
) -> None:
    images = _cached(tmp_path, _source(name="moved")).splits["train"].images[:]
    expected = images.clone()
    images.fill_(0)
    assert torch.equal(_cached(tmp_path).splits["train"].images[:], expected)
    damage(next(tmp_path.glob(f"*/{file}")))
    assert len(decoded) == 1
    found = _cached(tmp_path, _source(name="moved"))
    assert torch.equal(found.splits["train"].images[:], expected)
    assert [each.path for each in found.bad_files] == ["moved 1"], "as the source names them now"
    assert len(decoded) == 2


def test_one_writes_and_another_waits_for_it(tmp_path: Path, decoded: list[SourceSplit]) -> None:
    threads = [threading.Thread(target=_cached, args=(tmp_path,)) for _ in range(2)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(decoded) == 1
    assert [path.name for path in tmp_path.iterdir()] == [_cached(tmp_path).key]


def test_a_cache_that_cannot_be_written_ends_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert refusal(_cached, tmp_path / "file", kind=RuntimeError) == (
        f"image cache {tmp_path}/file cannot be written (File exists); set ISOPIX_CACHE to another one"
    )


@pytest.mark.parametrize(
    ("least", "free", "expected"), [(200, 2400, True), (200, 10**9, False), (1200, 2400, False)]
)
def test_auto_encodes_what_is_large_and_takes_much_of_the_free_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, least: int, free: int, expected: bool
) -> None:
    """Four images of 3 x (4 x 8 + 8 x 8) = 288 bytes."""
    assert (cache.MIN_ENCODED, cache.MAX_DISK_FRACTION) == (4 * 2**30, 0.25), "as documented"
    monkeypatch.setattr(cache, "MIN_ENCODED", least)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(free))
    assert _cached(tmp_path, store="auto").splits["train"].is_decoded != expected
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(10**9 if expected else 0))
    assert _cached(tmp_path, store="auto").splits["train"].is_decoded != expected, "the cache has it"
