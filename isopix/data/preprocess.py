"""Preparing: a stream of pictures to a stream of uint8 arrays of the model's resolution, on every core."""

import os
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice

import numpy as np
import torch
from numpy.typing import NDArray

from isopix.core.config import config
from isopix.core.random import generator
from isopix.data.decode import decode, reason
from isopix.data.resize import Place, Resample, fit, shrink
from isopix.data.sources.base import Part, Picture

CHUNK = 32  # pictures a thread takes at once: one by one, threads gain nothing over one core
CHUNKS_A_THREAD = 8  # in memory at once

Job = tuple[Picture, Place | None]


@config
class Preparation:
    """All that decides which pixels come out of a picture."""

    rows: int
    cols: int
    resample: Resample
    crop_seed: int | None  # None: the centre
    wide: int | None = None  # shorter side of the whole pictures that are kept as well

    @property
    def least(self) -> int:
        """No picture is averaged in two steps unless the second is by two or more."""
        return 2 * max(self.rows, self.cols, self.wide or 0)


@dataclass(frozen=True)
class Prepared:
    image: NDArray[np.uint8]  # [3 rows cols]
    wide: NDArray[np.uint8] | None  # [3 H W]


def prepare(part: Part, how: Preparation) -> Iterator[Prepared | str]:
    """Each picture of the part in order, or the reason why it cannot be read.

    Threads, not processes: Pillow's decoders leave Python's lock, and pixels need no copy to another process.
    """
    jobs = zip(part.pictures(), _places(part.count, how.crop_seed), strict=True)
    threads = os.cpu_count() or 1
    with ThreadPoolExecutor(threads) as pool:
        while chunks := list(_chunks(islice(jobs, CHUNK * CHUNKS_A_THREAD * threads))):
            with warnings.catch_warnings():
                warnings.filterwarnings("error", module=r"PIL\.")  # Pillow warns of what it half understands
                prepared = list(pool.map(lambda chunk: [_prepare(job, how) for job in chunk], chunks))
            for chunk in prepared:
                yield from chunk


def _chunks(jobs: Iterator[Job]) -> Iterator[list[Job]]:
    while chunk := list(islice(jobs, CHUNK)):
        yield chunk


def _places(count: int, seed: int | None) -> list[Place | None]:
    if seed is None:
        return [None] * count
    draws = torch.rand(count, 2, generator=generator(seed, "crop")).tolist()
    return [Place(down, across) for down, across in draws]


def _prepare(job: Job, how: Preparation) -> Prepared | str:
    picture, place = job
    try:
        rgb = decode(picture, how.least)
        image = fit(rgb, how.rows, how.cols, how.resample, place)
        return Prepared(image, None if how.wide is None else shrink(rgb, how.wide))
    except Exception as error:  # fuzzed files raise OSError, ValueError, SyntaxError, struct.error and more
        return reason(error)
