"""Work on images in threads, in order and with a bounded number of them in memory."""

import os
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from itertools import islice
from typing import TypeVar

import numpy as np

from isopix.data.decode import RawImage

T = TypeVar("T")
R = TypeVar("R")

IMAGES_PER_CHUNK = 32  # per thread: with single images, threads gain nothing over one core
CHUNKS_PER_THREAD = 8  # in memory at a time
MAX_HELD = 64 * 2**20  # bytes of images as they are read, and as they are kept, in memory at a time


def map_images(
    jobs: Iterator[T], work: Callable[[T], R], raw: Callable[[T], RawImage], *, kept_bytes: int
) -> Iterator[R]:
    """Yield `work(job)` for each job, in order; `raw` is the image of a job, and `kept_bytes` the size of a
    result.

    Threads, not processes: Pillow's decoders release the GIL, and pixels need not be copied between
    processes. They work on the next images while the caller uses those that are yielded.
    """
    threads = os.cpu_count() or 1
    most = min(IMAGES_PER_CHUNK * CHUNKS_PER_THREAD * threads, max(threads, MAX_HELD // kept_bytes))
    with ThreadPoolExecutor(threads) as pool, warnings.catch_warnings():
        warnings.filterwarnings("error", module=r"PIL\.")  # Pillow warns about files it reads in part
        pending: list[Future[list[R]]] = []
        while held := _take(jobs, raw, most):
            size = min(IMAGES_PER_CHUNK, -(-len(held) // threads))
            chunks = [held[first : first + size] for first in range(0, len(held), size)]
            ready, pending = pending, [pool.submit(partial(_work, chunk, work)) for chunk in chunks]
            for each in ready:
                yield from each.result()
        for each in pending:
            yield from each.result()


def _work(chunk: list[T], work: Callable[[T], R]) -> list[R]:
    return [work(job) for job in chunk]


def _take(jobs: Iterator[T], raw: Callable[[T], RawImage], count: int) -> list[T]:
    """Return the next jobs, up to this many and about `MAX_HELD` bytes of images; files are read later."""
    held, size = [], 0
    for job in islice(jobs, count):
        held.append(job)
        size += _num_bytes(raw(job))
        if size > MAX_HELD:
            break
    return held


def _num_bytes(raw: RawImage) -> int:
    """Return the bytes of an image in memory."""
    if isinstance(raw, np.ndarray):
        return raw.nbytes
    return len(raw) if isinstance(raw, bytes) else 0
