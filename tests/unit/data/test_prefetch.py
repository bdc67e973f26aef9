"""Batches of encoded images from worker processes are those that one process reads."""

import os
import pickle
import signal
import time
from collections import namedtuple
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from isopix.data import encoded_file, prefetch
from isopix.data.augment import NoAugmentation, PadCropFlip, ScaleCrop
from isopix.data.batches import Batches
from isopix.data.cache import cached_source
from isopix.data.encoded_file import decode_pixels
from isopix.data.prefetch import num_workers
from isopix.data.preprocess import PreprocessConfig
from isopix.data.sources.base import Source, SourceSplit
from isopix.data.splits import Split
from isopix.data.store import STORES
from tests.unit.data.refusal import refusal

COUNT = 21
AUGMENTATIONS = [NoAugmentation(), PadCropFlip(pad=2), ScaleCrop(min_side=12, max_side=16, crop=10, flip=0.5)]


def _split(pixels: np.ndarray, labels: np.ndarray | None = None) -> SourceSplit:
    return SourceSplit(len(pixels), lambda start, stop: iter(pixels[start:stop]), str, labels)


@pytest.fixture(scope="module")
def splits(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Split]:
    """The same images in both stores."""
    pixels = np.random.default_rng(0).integers(0, 256, (COUNT, 16, 20, 3), dtype=np.uint8)
    source = Source("noise", {"train": _split(pixels, np.arange(COUNT))}, (), "hash")
    config = PreprocessConfig(rows=6, cols=8, resample="area", crop_seed=None, full_side=14)
    folder = tmp_path_factory.mktemp("cache")
    return {
        name: cached_source(source, {"train": config}, folder, store).splits["train"]
        for name, store in STORES.items()
    }


def _children() -> set[int]:
    return set(map(int, Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()))


def _ended(pids: set[int], seconds: float = 10.0) -> bool:
    deadline = time.monotonic() + seconds
    while pids & _children() and time.monotonic() < deadline:
        time.sleep(0.05)
    return not pids & _children()


def _is_running(pid: int) -> bool:
    """Whether a process is neither gone nor a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("augment", AUGMENTATIONS, ids=lambda each: each.kind)
def test_only_own_images_are_decoded_and_they_are_those_of_the_whole_batch(
    splits: dict[str, Split], augment: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded = list[bytes]()

    def counted(content: bytes) -> NDArray[np.uint8]:
        decoded.append(content)
        return decode_pixels(content)

    whole = Batches(splits["encoded"], batch_size=6, seed=3, augment=augment, workers=0)
    expected = [whole.batch(step)[0] for step in range(5)]
    monkeypatch.setattr(encoded_file, "decode_pixels", counted)
    for own in (slice(0, 2), slice(2, 6)):
        batches = Batches(splits["encoded"], batch_size=6, seed=3, augment=augment, workers=0, own=own)
        for step in (0, 1, 4, 2, 3):
            decoded.clear()
            assert torch.equal(batches.batch(step)[0][own], expected[step][own])
            assert len({*decoded}) == own.stop - own.start


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("augment", AUGMENTATIONS, ids=lambda each: each.kind)
def test_stores_and_workers_give_the_same_batches(
    splits: dict[str, Split], augment: object, workers: int
) -> None:
    own = Batches(splits["pixels"], batch_size=4, seed=3, augment=augment)
    encoded = Batches(splits["encoded"], batch_size=4, seed=3, augment=augment, workers=workers)
    for step in (0, 1, 2, 3, 11, 12, 5, 6):  # a resume, and a rollback; a batch spans two epochs
        (images, labels), (others, theirs) = own.batch(step), encoded.batch(step)
        assert torch.equal(images, others)
        assert torch.equal(labels, theirs)
    encoded.close()


def test_consecutive_steps_come_from_the_same_processes(splits: dict[str, Split]) -> None:
    before = _children()
    batches = Batches(splits["encoded"], batch_size=4, workers=2)
    assert _children() == before, "nothing starts before the first batch"
    batches.batch(7)
    first = _children() - before
    for step in range(8, 20):
        batches.batch(step)
    assert (len(first), _children() - before) == (2, first)
    batches.batch(3)
    assert _ended(first), "another step starts others"
    second = _children() - before
    batches.close()
    assert _ended(second)
    batches.close()


def test_workers_end_with_their_batches(splits: dict[str, Split]) -> None:
    before = _children()
    batches = Batches(splits["encoded"], batch_size=4, workers=1)
    batches.batch(0)
    started = _children() - before
    del batches
    assert len(started) == 1
    assert _ended(started)


def test_the_global_generator_is_left_alone(splits: dict[str, Split]) -> None:
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    batches = Batches(splits["encoded"], batch_size=4, workers=1)
    batches.batch(0)
    batches.close()
    assert torch.equal(torch.rand(3), expected)


def test_stop_signals_do_not_end_a_worker(splits: dict[str, Split]) -> None:
    before = _children()
    batches = Batches(splits["encoded"], batch_size=4, workers=1)
    batches.batch(0)
    [worker] = _children() - before
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        os.kill(worker, number)
    for step in range(1, 6):
        batches.batch(step)
    assert _children() - before == {worker}
    batches.close()
    assert _ended({worker})


def test_a_killed_worker_is_reported_in_one_line(splits: dict[str, Split]) -> None:
    before = _children()
    batches = Batches(splits["encoded"], batch_size=4, workers=1)
    batches.batch(0)
    [worker] = _children() - before

    def read_on() -> None:
        os.kill(worker, signal.SIGKILL)
        for step in range(1, 20):
            batches.batch(step)

    text = refusal(read_on, kind=RuntimeError)
    assert text.startswith("a worker process that decodes images has ended ("), text
    assert torch.equal(batches.batch(5)[0], splits["pixels"].images[batches.indices(5)]), "others start"
    batches.close()


def test_a_killed_worker_disturbs_nothing_but_the_next_batch(splits: dict[str, Split]) -> None:
    """PyTorch's handler of SIGCHLD raises in whatever code this process runs."""
    before, handler = _children(), signal.getsignal(signal.SIGCHLD)
    batches = Batches(splits["encoded"], batch_size=4, workers=1)
    batches.batch(0)
    assert signal.getsignal(signal.SIGCHLD) is handler
    [worker] = _children() - before
    os.kill(worker, signal.SIGKILL)
    while _is_running(worker):
        time.sleep(0.01)
    batches.close()


def test_a_damaged_image_is_reported_in_one_line_by_a_worker(tmp_path: Path) -> None:
    pixels = np.zeros((6, 8, 8, 3), dtype=np.uint8)
    source = Source("black", {"train": _split(pixels)}, (), "hash")
    config = PreprocessConfig(rows=8, cols=8, resample="area", crop_seed=None)
    split = cached_source(source, {"train": config}, tmp_path, STORES["encoded"]).splits["train"]
    path = next(tmp_path.glob("*/train.images.bin"))
    path.write_bytes(bytes(path.stat().st_size))
    streams = [Batches(split, batch_size=4, workers=workers) for workers in (0, 1)]
    texts = [refusal(batches.batch, 0, kind=RuntimeError) for batches in streams]
    assert texts[0] == texts[1]
    assert texts[0].startswith(f"an image in {path} is damaged (")


def test_what_workers_need_can_be_pickled(splits: dict[str, Split]) -> None:
    """As where processes are not forked: on macOS, Windows and from Python 3.14 on."""
    batches = Batches(splits["encoded"], batch_size=4, seed=2, augment=AUGMENTATIONS[2])
    read = pickle.loads(pickle.dumps(batches.read))
    assert torch.equal(read(9), batches.read(9))


Usage = namedtuple("Usage", "free")


def test_workers_fit_into_the_shared_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prefetch, "available_cores", lambda: 100)
    monkeypatch.setattr(prefetch, "SHARED_MEMORY", Path("/"))
    monkeypatch.setattr(prefetch.shutil, "disk_usage", lambda path: Usage(4000))
    assert [num_workers(wanted, 100) for wanted in (None, 0, 1, 9, 50)] == [8, 0, 1, 9, 10]
    assert num_workers(None, 500) == 2
    assert num_workers(4, 5000) == 0


def test_decoded_images_need_no_workers(splits: dict[str, Split]) -> None:
    assert Batches(splits["pixels"], batch_size=4, workers=2).prefetch is None
    assert Batches(splits["encoded"], batch_size=4, workers=0).prefetch is None
