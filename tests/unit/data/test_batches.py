"""Batches are a function of (seed, step), and show every image once per epoch."""

import multiprocessing
import os
import pickle
import shutil
import signal
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from isopix.data import batches
from isopix.data.augment import AugmentationSpec, NoAugmentation, PadCropFlip, ScaleCrop
from isopix.data.batches import Batches, num_workers
from isopix.data.splits import Split
from isopix.data.store import EncodedFile
from tests.unit.data.refusal import refusal
from tests.unit.data.test_stores import cached, splits

__all__ = ["splits"]  # a fixture


def _split(count: int) -> Split:
    images = torch.arange(count, dtype=torch.uint8)[:, None, None, None].expand(count, 3, 8, 8)
    return Split(images, torch.arange(count))


@given(st.integers(1, 40), st.integers(1, 50), st.integers(0, 5))
@settings(max_examples=50, deadline=None)
def test_every_image_is_seen_once_per_epoch(count: int, size: int, seed: int) -> None:
    batches = Batches(_split(count), batch_size=size, seed=seed)
    steps = 3 * batches.steps_per_epoch
    assert steps - 3 < 3 * count / size <= steps
    seen = torch.cat([batches.order.indices(step) for step in range(steps)])
    images, labels = batches.batch(1)
    assert images[:, 0, 0, 0].tolist() == labels.tolist() == batches.order.indices(1).tolist()
    for epoch in range(len(seen) // count):
        assert seen[epoch * count : (epoch + 1) * count].sort().values.tolist() == list(range(count))


# Encoded images are decoded by worker processes.

AUGMENTATIONS = [NoAugmentation(), PadCropFlip(pad=2), ScaleCrop(min_side=12, max_side=16, crop=10, flip=0.5)]


def _children() -> set[int]:
    return {each.pid for each in multiprocessing.active_children()}


def _ended(pids: set[int], seconds: float = 10.0) -> bool:
    deadline = time.monotonic() + seconds
    while pids & _children() and time.monotonic() < deadline:
        time.sleep(0.05)
    return not pids & _children()


@pytest.mark.parametrize("augment", AUGMENTATIONS, ids=lambda each: each.kind)
def test_only_own_images_are_decoded_and_they_are_those_of_the_whole_batch(
    splits: dict[str, Split], augment: AugmentationSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, decode = list[int](), EncodedFile.__getitem__
    whole = Batches(splits["pixels"], batch_size=6, seed=3, augment=augment)
    monkeypatch.setattr(EncodedFile, "__getitem__", lambda file, i: read.append(i) or decode(file, i))
    for own in (slice(0, 2), slice(2, 6)):
        batches = Batches(splits["encoded"], batch_size=6, seed=3, augment=augment, workers=0, own=own)
        for step in (0, 1, 4, 2, 3):
            read.clear()
            assert torch.equal(batches.batch(step)[0][own], whole.batch(step)[0][own])
            assert len({*read}) == own.stop - own.start


def test_consecutive_steps_come_from_the_same_processes(splits: dict[str, Split]) -> None:
    torch.manual_seed(1)
    before, state = _children(), torch.get_rng_state()
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
    del batches
    assert _ended(second), "they end with their batches"
    assert torch.equal(torch.get_rng_state(), state), "the global generator is left alone"


def test_stop_signals_do_not_end_a_worker_and_a_killed_one_is_reported(splits: dict[str, Split]) -> None:
    before = _children()
    batches = Batches(splits["encoded"], batch_size=4, workers=1)
    batches.batch(0)
    [worker] = _children() - before
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        os.kill(worker, number)
    for step in range(1, 6):
        batches.batch(step)
    assert _children() - before == {worker}

    def read_on() -> None:
        os.kill(worker, signal.SIGKILL)
        for step in range(6, 30):
            batches.batch(step)

    text = refusal(read_on, kind=RuntimeError)
    assert text.startswith("a worker process that decodes images has ended ("), text
    assert torch.equal(batches.batch(5)[0], splits["pixels"].images[batches.order.indices(5)]), "others start"
    batches.close()
    assert _ended(_children() - before)


def test_a_damaged_image_is_reported_by_a_worker(tmp_path: Path) -> None:
    split = cached(tmp_path, "encoded")
    path = next(tmp_path.glob("*/train.images"))
    path.write_bytes(bytes(path.stat().st_size))
    text = refusal(Batches(split, batch_size=4, workers=1).batch, 0, kind=RuntimeError)
    assert text.startswith(f"an image in {path} is damaged (")


def test_what_workers_need_can_be_pickled(splits: dict[str, Split]) -> None:
    """As where processes are not forked: on macOS, and from Python 3.14 on."""
    batches = Batches(splits["encoded"], batch_size=4, seed=2, augment=AUGMENTATIONS[2])
    assert torch.equal(pickle.loads(pickle.dumps(batches.read))(9), batches.read(9))


def test_workers_fit_into_the_shared_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "available_cores", lambda: 100)
    monkeypatch.setattr(batches, "SHARED_MEMORY", Path("/"))
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=4000))
    assert [num_workers(wanted, 100) for wanted in (None, 0, 1, 9, 50)] == [8, 0, 1, 9, 10]
    assert num_workers(None, 500) == 2
    assert num_workers(4, 5000) == 0
