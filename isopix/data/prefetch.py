"""Prefetch: worker processes that read the batches of the next steps while one is trained on."""

import atexit
import multiprocessing
import shutil
import signal
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from multiprocessing.process import BaseProcess
from pathlib import Path

import torch
from torch.utils.data import DataLoader, Dataset, Sampler

from isopix.core import ranks
from isopix.core.device import available_cores
from isopix.core.types import Images
from isopix.data.decode import failure_reason

DEFAULT_WORKERS = 8  # at most
AHEAD = 2  # batches that each worker reads in advance
SHARED_MEMORY = Path("/dev/shm")  # through which workers return batches; 64 MiB in many containers
# The main process gets these signals too, and decides: it saves before it ends, and its workers with it.
IGNORED = ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2")

EXIT_SECONDS = 1.0  # for a worker to end by itself when this process does

Read = Callable[[int], Images]

_started: "weakref.WeakSet[BaseProcess]" = weakref.WeakSet()  # workers


class Prefetch:
    """The batches that `read` returns for a step, read in `workers` processes, in the order of steps.

    A step other than the next one starts the workers anew. `read` is pickled where processes are not forked.
    Use `close` to end the workers; they also end with this object and with this process, however it ends.
    """

    def __init__(self, read: Read, *, workers: int, pin_memory: bool = False):
        self.read, self.workers, self.pin_memory = read, workers, pin_memory
        self._step, self._running = 0, False
        self._batches: Iterator[Images | str] = iter(())
        atexit.register(_close, weakref.ref(self))

    def batch(self, step: int) -> Images:
        """Return the images of a step. Raises RuntimeError for what a worker raised or died of."""
        if step != self._step or not self._running:
            self.close()
            others = set(multiprocessing.active_children())
            self._batches, self._running = _start(self._loader(step)), True
            _started.update(set(multiprocessing.active_children()) - others)
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
        """End the workers, if there are any; the next batch starts others."""
        self._batches, self._running = iter(()), False  # the loader's iterator ends them

    def _loader(self, step: int) -> DataLoader[Images | str]:
        return DataLoader(
            _StepDataset(self.read),
            batch_size=None,  # an item is a batch
            sampler=_Steps(step),
            num_workers=self.workers,
            prefetch_factor=AHEAD,
            pin_memory=self.pin_memory,
            worker_init_fn=_start_worker,
            generator=torch.Generator(),  # else the loader draws from the global one
        )


def num_workers(wanted: int | None, batch_bytes: int) -> int:
    """Return the number of worker processes: `wanted`, or for None one for each core, at most 8, and no more
    than the shared memory has room for. 0 in a process that may not have children.
    """
    if multiprocessing.current_process().daemon:
        return 0
    cores = max(1, available_cores() // ranks.num_local_ranks())
    workers = min(DEFAULT_WORKERS, cores) if wanted is None else wanted
    if not SHARED_MEMORY.is_dir():
        return workers
    room = shutil.disk_usage(SHARED_MEMORY).free // 2 // ranks.num_local_ranks()  # others use it too
    return min(workers, room // (AHEAD * batch_bytes))


class _Steps(Sampler[int]):
    """All steps from the first one on."""

    def __init__(self, first: int):
        self.first = first

    def __iter__(self) -> Iterator[int]:
        return count(self.first)


class _StepDataset(Dataset[Images | str]):
    """The images of each step, or in one line why they could not be read: the loader's own errors hold a
    traceback.
    """

    def __init__(self, read: Read):
        self.read = read

    def __getitem__(self, step: int) -> Images | str:
        try:
            return self.read(step)
        except Exception as error:
            return failure_reason(error)


def _start(loader: DataLoader[Images | str]) -> Iterator[Images | str]:
    with warnings.catch_warnings(), _kept_sigchld_handler():
        warnings.filterwarnings("ignore", "This DataLoader will create", UserWarning)  # more than cores
        warnings.filterwarnings("ignore", ".*multi-threaded", DeprecationWarning)  # forks
        return iter(loader)


@contextmanager
def _kept_sigchld_handler() -> Iterator[None]:
    """Leave the handler of SIGCHLD as it is: PyTorch's raises wherever this process is when a worker dies, in
    a lock or a destructor too. Without it, the next batch reports the worker.
    """
    if not hasattr(signal, "SIGCHLD") or threading.current_thread() is not threading.main_thread():
        yield  # on Windows, and in other threads, PyTorch sets none
        return
    kept = signal.getsignal(signal.SIGCHLD)
    try:
        yield
    finally:
        if kept is not None:  # not set from Python
            signal.signal(signal.SIGCHLD, kept)


def _start_worker(number: int) -> None:
    signal.set_wakeup_fd(-1)  # it would write signals of this process to a pipe of the main one
    for name in IGNORED:
        if hasattr(signal, name):  # not all on Windows
            signal.signal(getattr(signal, name), signal.SIG_IGN)


@atexit.register
def _kill_workers() -> None:
    """Kill the workers that have not ended: one may wait forever for a lock of another that was killed, and
    ignores the signal by which Python ends it.
    """
    for each in [each for each in _started if each.pid is not None and each.is_alive()]:
        each.join(EXIT_SECONDS)
        each.kill()


def _close(prefetch: "weakref.ref[Prefetch]") -> None:
    """End the workers before Python's own exit waits for them."""
    there = prefetch()
    if there is not None:
        there.close()
