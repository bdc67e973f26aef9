"""Preparation of images that is interrupted goes on, and ends with what an undisturbed one writes."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from isopix.core.progress import CountDone
from isopix.data import cache
from isopix.data.cache import CachedSource, cached_source
from isopix.data.preprocess import Encode, PreprocessConfig, PreprocessedImage, preprocess
from isopix.data.sources.base import Source, SourceSplit
from isopix.data.store import STORES, StoreName
from tests.unit.data.shards import encoded

RAW = [encoded(0), b"junk", encoded(1), encoded(2)]
CROPS = PreprocessConfig(rows=4, cols=8, resample="area", crop_seed=3, full_side=4)

Results = Iterator[PreprocessedImage | str]


def _cached(folder: Path, store: StoreName) -> CachedSource:
    train = SourceSplit(
        len(RAW),
        lambda start, stop: iter(RAW[start:stop]),
        lambda i: f"train {i}",
        np.arange(4),
        np.array([5, 6, 7, 5]),
    )
    test = SourceSplit(
        2, lambda start, stop: iter(RAW[1 + start : 1 + stop]), lambda i: f"test {i}", np.arange(2)
    )
    source = Source("set", {"train": train, "test": test}, ("a", "b", "c", "d"), "content")
    return cached_source(source, {"train": CROPS, "test": CROPS}, folder, STORES[store])


def _preprocess(starts: list[int], last: int | None) -> Callable[..., Results]:
    """Return `preprocess` that records where it starts, and is interrupted after so many images."""

    def read(split: SourceSplit, config: PreprocessConfig, encode: Encode, *, start: int) -> Results:
        starts.append(start)
        for count, result in enumerate(preprocess(split, config, encode, start=start)):
            if count == last:
                raise KeyboardInterrupt
            yield result

    return read


def _content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("*/*")}


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (-1.0, [[0], [1], [2], [3, 0], [4, 1], []]),
        (1e9, [[0], [0], [0], [0], [0], [0]]),
    ],
    ids=["saved after each image", "never saved"],
)
def test_an_interrupted_preparation_goes_on(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    store: StoreName,
    seconds: float,
    expected: list[list[int]],
) -> None:
    undisturbed = _cached(tmp_path / "undisturbed", store)
    monkeypatch.setattr(cache, "SAVE_SECONDS", seconds)
    found = list[list[int]]()
    for _ in expected:
        found.append([])
        monkeypatch.setattr(cache, "preprocess", _preprocess(found[-1], 1))
        with suppress(KeyboardInterrupt):
            _cached(tmp_path / "stopped", store)
    assert found == expected
    monkeypatch.setattr(cache, "preprocess", preprocess)
    assert _cached(tmp_path / "stopped", store).bad_files == undisturbed.bad_files
    assert _content(tmp_path / "stopped") == _content(tmp_path / "undisturbed")


def test_a_saved_file_that_is_shorter_than_it_was_starts_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _cached(tmp_path / "undisturbed", "pixels")
    monkeypatch.setattr(cache, "SAVE_SECONDS", -1)
    starts = list[int]()
    monkeypatch.setattr(cache, "preprocess", _preprocess(starts, 1))
    for _ in range(2):
        with suppress(KeyboardInterrupt):
            _cached(tmp_path / "stopped", "pixels")
    partial = next((tmp_path / "stopped").glob(".partial-*/train.images.npy"))
    os.truncate(partial, 200)
    monkeypatch.setattr(cache, "preprocess", _preprocess(starts, None))
    _cached(tmp_path / "stopped", "pixels")
    assert starts == [0, 1, 0, 0]
    assert _content(tmp_path / "stopped") == _content(tmp_path / "undisturbed")


PREPARE = """
import sys
from pathlib import Path
from isopix.data import cache
from tests.unit.data.test_preparation import prepare_slowly
prepare_slowly(Path(sys.argv[1]))
"""


def prepare_slowly(folder: Path) -> None:
    """Prepare images, half a second for each; run in a process of its own."""

    def slow(split: SourceSplit, config: PreprocessConfig, encode: Encode, *, start: int) -> Results:
        for result in preprocess(split, config, encode, start=start):
            time.sleep(0.5)
            sys.stdout.write(f"{start}\n")
            sys.stdout.flush()
            yield result

    cache.SAVE_SECONDS, cache.preprocess = -1, slow  # type: ignore[assignment]
    _cached(folder, "encoded")


def _started(command: list[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


@pytest.mark.integration
def test_a_killed_process_is_followed_by_one_that_waited(tmp_path: Path) -> None:
    _cached(tmp_path / "undisturbed", "encoded")
    command = [sys.executable, "-c", PREPARE, str(tmp_path / "killed")]
    with _started(command) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "0\n"
        with _started(command) as second:
            assert first.stdout.readline() == "0\n"
            first.kill()
            output, _ = second.communicate(timeout=60)
    done = int(output[0])
    assert done in (1, 2)
    assert output.split() == [str(done)] * (4 - done) + ["0", "0"]
    assert _content(tmp_path / "killed") == _content(tmp_path / "undisturbed")


def test_the_images_that_are_done_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = list[tuple[str, int, int] | int]()

    class Display:
        def __init__(self, description: str, total: int, done: int):
            shown.append((description, total, done))

        def __enter__(self) -> CountDone:
            return shown.append

        def __exit__(self, *_: object) -> None:
            pass

    monkeypatch.setattr(cache, "SAVE_SECONDS", -1)
    monkeypatch.setattr(cache, "track", Display)
    monkeypatch.setattr(cache, "preprocess", _preprocess([], 2))
    with suppress(KeyboardInterrupt):
        _cached(tmp_path, "pixels")
    monkeypatch.setattr(cache, "preprocess", preprocess)
    _cached(tmp_path, "pixels")
    assert shown == [("preparing images", 6, 0), 1, 2, ("preparing images", 6, 2), 3, 4, 5, 6]
