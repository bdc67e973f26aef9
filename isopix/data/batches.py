"""Batches: an endless stream of training batches, as a pure function of (seed, step)."""

import atexit
import multiprocessing
import shutil
import signal
import threading
import warnings
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from multiprocessing.process import BaseProcess
from pathlib import Path

import torch
from torch.utils.data import DataLoader, Dataset

from isopix.core import ranks
from isopix.core.device import available_cores, free_memory
from isopix.core.random import generator
from isopix.core.signals import ignore_stop_signals
from isopix.core.types import Images, Labels
from isopix.data.augment import AugmentationSpec, NoAugmentation
from isopix.data.decode import failure_reason
from isopix.data.splits import Indices, Split

NO_AUGMENTATION = NoAugmentation()
DEFAULT_WORKERS = 8  # at most
AHEAD = 2  # batches that each worker reads in advance
SHARED_MEMORY = Path("/dev/shm")  # through which workers return batches; 64 MiB in many containers


def steps_per_epoch(num_images: int, batch_size: int) -> int:
    """Return ceil(num_images / batch_size): 352 for 45,000 images in batches of 128."""
    return -(-num_images // batch_size)


class ShuffledIndices:
    """The indices, below `count`, of each step's batch: a new random permutation every epoch."""

    def __init__(self, count: int, *, batch_size: int, seed: int, purpose: str):
        self.count, self.batch_size, self.seed, self.purpose = count, batch_size, seed, purpose
        # The last epoch's is kept: drawing a million indices takes longer than a batch.
        self._epoch, self._order = -1, torch.empty(0, dtype=torch.int64)

    def indices(self, step: int) -> Indices:
        """Return the indices of a step; a batch may span two epochs."""
        samples = torch.arange(step * self.batch_size, (step + 1) * self.batch_size)
        epochs, positions = samples // self.count, samples % self.count
        found = range(int(epochs[0]), int(epochs[-1]) + 1)
        return torch.cat([self._of(epoch)[positions[epochs == epoch]] for epoch in found])

    def _of(self, epoch: int) -> Indices:
        if epoch != self._epoch:
            order = torch.randperm(self.count, generator=generator(self.seed, self.purpose, epoch))
            self._epoch, self._order = epoch, order
        return self._order


@dataclass(frozen=True)
class StepReader(Dataset[Images | str]):
    """Reads the augmented images of a step, in whichever process; encoded ones only where they are `own`.

    As an item of a loader, they may be one line that says why they could not be read.
    """

    split: Split
    order: ShuffledIndices
    augment: AugmentationSpec
    seed: int
    own: slice | None = None

    def __call__(self, step: int) -> Images:
        indices = self.order.indices(step)
        split = self.split if self.own is None else self.split.decoding_only(indices[self.own])
        return self.augment.sample(split, indices, generator(self.seed, "augment", step))

    def __getitem__(self, step: int) -> Images | str:
        try:
            return self(step)
        except Exception as error:
            return failure_reason(error)


class Batches:
    """Shuffled, augmented batches of a split: every image once per epoch.

    Images that fit in half of the device's free memory are kept there; encoded ones are decoded in `workers`
    processes, those alone that are this process's `own`.
    """

    def __init__(
        self,
        split: Split,
        *,
        batch_size: int,
        seed: int = 0,
        device: torch.device | str = "cpu",
        augment: AugmentationSpec = NO_AUGMENTATION,
        workers: int | None = None,
        own: slice | None = None,
    ):
        assert len(split), "there are training images"
        self.device = torch.device(device)
        fits = split.is_decoded and split.nbytes <= free_memory(self.device) // 2
        self.split = split.to(self.device) if fits else split
        self.batch_size, self.seed, self.augment = batch_size, seed, augment
        self.order = ShuffledIndices(len(split), batch_size=batch_size, seed=seed, purpose="order")
        self.read = StepReader(self.split, self.order, augment, seed, own)
        batch_bytes = batch_size * split.images.shape[1:].numel()
        processes = 0 if split.is_decoded else num_workers(workers, batch_bytes)
        on_gpu = self.device.type == "cuda"
        self.prefetch = Prefetch(self.read, workers=processes, pin_memory=on_gpu) if processes else None

    @property
    def steps_per_epoch(self) -> int:
        return steps_per_epoch(len(self.split), self.batch_size)

    def batch(self, step: int) -> tuple[Images, Labels | None]:
        """Return the images and labels of a step, on the device. Raises RuntimeError for damaged images."""
        images = self.read(step) if self.prefetch is None else self.prefetch.batch(step)
        labels = self.split.labels
        if labels is not None:
            labels = labels[self.order.indices(step)].to(self.device)
        return images.to(self.device, non_blocking=True), labels

    def close(self) -> None:
        """End the worker processes; the next batch starts others."""
        if self.prefetch is not None:
            self.prefetch.close()


class Prefetch:
    """The batches that `read`, which is pickled, returns for a step, read in `workers` processes in order."""

    def __init__(self, read: Dataset[Images | str], *, workers: int, pin_memory: bool = False):
        self.read, self.workers, self.pin_memory = read, workers, pin_memory
        self._step = 0
        self._batches: Iterator[Images | str] | None = None
        self._processes: set[BaseProcess] = set()
        atexit.register(_close, weakref.ref(self))  # before Python's own exit, which waits for them

    def batch(self, step: int) -> Images:
        """Return the images of a step. Raises RuntimeError for what a worker raised or died of."""
        if step != self._step or self._batches is None:
            self.close()
            self._start(step)
        assert self._batches is not None
        try:
            images = next(self._batches)
        except (RuntimeError, OSError, EOFError) as error:  # of the loader, and of a broken connection
            self.close()
            raise RuntimeError(
                f"a worker process that decodes images has ended ({failure_reason(error)}); data.workers is "
                f"{self.workers}: fewer need less memory, and 0 decodes in this process"
            ) from error
        if isinstance(images, str):
            self.close()
            raise RuntimeError(images)
        self._step = step + 1
        return images

    def close(self) -> None:
        self._batches = None  # the loader's iterator ends them
        for each in self._processes:  # one may wait forever for a lock of another that was killed
            each.kill()
        self._processes = set()

    def __del__(self) -> None:
        self.close()

    def _start(self, step: int) -> None:
        others, handler = set(multiprocessing.active_children()), signal.getsignal(signal.SIGCHLD)
        loader = DataLoader(
            self.read,
            batch_size=None,  # an item is a batch
            sampler=count(step),
            num_workers=self.workers,
            prefetch_factor=AHEAD,
            pin_memory=self.pin_memory,
            worker_init_fn=_ignore_signals,
            generator=torch.Generator(),  # else the loader draws from the global one
        )
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "This DataLoader will create", UserWarning)  # more than cores
            warnings.filterwarnings("ignore", ".*multi-threaded", DeprecationWarning)  # forks
            self._batches = iter(loader)
        self._processes = set(multiprocessing.active_children()) - others
        if handler is not None and threading.current_thread() is threading.main_thread():
            # PyTorch's raises wherever this process is when a worker dies, in a lock or a destructor too.
            signal.signal(signal.SIGCHLD, handler)


def num_workers(wanted: int | None, batch_bytes: int) -> int:
    """Return `wanted` or the number of cores, at most 8, and what shared memory and the process allow."""
    if multiprocessing.current_process().daemon:
        return 0
    cores = max(1, available_cores() // ranks.num_local_ranks())
    workers = min(DEFAULT_WORKERS, cores) if wanted is None else wanted
    if not SHARED_MEMORY.is_dir():
        return workers
    room = shutil.disk_usage(SHARED_MEMORY).free // 2 // ranks.num_local_ranks()  # others use it too
    return min(workers, room // (AHEAD * batch_bytes))


def _ignore_signals(number: int) -> None:
    signal.set_wakeup_fd(-1)  # it would write signals of this process to a pipe of the main one
    ignore_stop_signals()  # the main process gets them too, saves, and then ends its workers


def _close(prefetch: "weakref.ref[Prefetch]") -> None:
    if (there := prefetch()) is not None:
        there.close()
