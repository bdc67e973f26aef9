"""Preprocessing: raw images to uint8 arrays at the model's resolution, on every core."""

import math
import os
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import islice, repeat
from operator import itemgetter
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from isopix.core.config import config, to_dict
from isopix.core.random import generator
from isopix.data.decode import (
    NEVER_REDUCED,
    RawImage,
    content_number,
    decode_image,
    failure_reason,
    read_content,
)
from isopix.data.resize import (
    CropPosition,
    Resample,
    crop_and_resize,
    resize_and_crop,
    resize_shorter_side,
    squash,
)
from isopix.data.sources.base import SourceSplit
from isopix.data.store import Encode, keep_pixels

T = TypeVar("T")
R = TypeVar("R")
Job = tuple[RawImage, CropPosition | None]

IMAGES_PER_CHUNK = 32  # per thread: with single images, threads gain nothing over one core
CHUNKS_PER_THREAD = 8  # in memory at a time
MAX_HELD = 64 * 2**20  # bytes of images as they are read, and as they are kept, in memory at a time


@config
class PreprocessConfig:
    """Everything that decides which pixels an image becomes."""

    rows: int
    cols: int
    resample: Resample
    crop_seed: int | None  # None: center crop
    full_side: int | None = None  # shorter side of the full-resolution images, if they are kept too
    crop_fraction: float = 1.0  # of the sides of the largest box that fits
    squash: bool = False  # the whole image, without regard to its aspect ratio
    resize_first: bool = False  # resize the whole image, then crop its center

    @property
    def min_side(self) -> int:
        """Smallest side to which a JPEG may be reduced in decoding: twice the largest side that is needed.

        None is reduced before the whole of it is resized: other libraries resize all of its pixels.
        """
        if self.squash or self.resize_first:
            return NEVER_REDUCED
        return math.ceil(2 * max(self.rows, self.cols, self.full_side or 0) / self.crop_fraction)

    @property
    def nbytes(self) -> int:
        """Bytes of the pixels that are kept of an image whose sides are equal."""
        return 3 * (self.rows * self.cols + (self.full_side or 0) ** 2)

    def identity(self) -> dict[str, Any]:
        """Return the settings that decide the pixels; later ones only where they are not the default."""
        later = {"crop_fraction": 1.0, "squash": False, "resize_first": False}
        return {name: each for name, each in to_dict(self).items() if later.get(name, ...) != each}


@dataclass(frozen=True)
class PreprocessedImage:
    """An image at the model's resolution, its full-resolution version if that is kept, and a 63-bit hash of
    its content.
    """

    image: NDArray[np.uint8]  # [3 rows cols], or encoded
    full: NDArray[np.uint8] | None  # [3 H W], or encoded
    full_size: tuple[int, int] | None  # its H and W
    content_hash: int


def preprocess(
    split: SourceSplit, config: PreprocessConfig, encode: Encode = keep_pixels
) -> Iterator[PreprocessedImage | str]:
    """Yield each image of the split in order, encoded by `encode`, or the reason why it cannot be read;
    threads do the work (`map_images`).
    """
    jobs = zip(split.images(), _crop_positions(split, config), strict=True)
    work = partial(_preprocess, config=config, encode=encode)
    yield from map_images(jobs, work, itemgetter(0), kept_bytes=config.nbytes)


def _crop_positions(split: SourceSplit, config: PreprocessConfig) -> Iterator[CropPosition | None]:
    if config.crop_seed is None:
        return repeat(None, split.num_images)
    places = torch.rand(split.num_images, 2, generator=generator(config.crop_seed, "crop"))
    return map(CropPosition, *places.double().T.numpy())


def _resize(rgb: Image.Image, config: PreprocessConfig, position: CropPosition | None) -> NDArray[np.uint8]:
    size = (config.rows, config.cols)
    if config.squash:
        return squash(rgb, *size, config.resample)
    if config.resize_first:
        return resize_and_crop(rgb, *size, config.resample, fraction=config.crop_fraction)
    return crop_and_resize(rgb, *size, config.resample, position, fraction=config.crop_fraction)


def _preprocess(job: Job, config: PreprocessConfig, encode: Encode) -> PreprocessedImage | str:
    raw, position = job
    try:
        content = read_content(raw)
        rgb = decode_image(content, config.min_side)
        image, number = encode(_resize(rgb, config, position), None), content_number(content, rgb)
        if config.full_side is None:
            return PreprocessedImage(image, None, None, number)
        full = resize_shorter_side(rgb, config.full_side)
        size = (full.shape[1], full.shape[2])
        source = content if isinstance(content, bytes) and size == (rgb.height, rgb.width) else None
        return PreprocessedImage(image, encode(full, source), size, number)
    except Exception as error:  # damaged files raise OSError, ValueError, SyntaxError, struct.error and more
        return failure_reason(error)


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
            ready, pending = (
                pending,
                [pool.submit(lambda chunk: list(map(work, chunk)), chunk) for chunk in chunks],
            )
            for each in ready:
                yield from each.result()
        for each in pending:
            yield from each.result()


def _take(jobs: Iterator[T], raw: Callable[[T], RawImage], count: int) -> list[T]:
    """Return the next jobs, up to this many and about `MAX_HELD` bytes of images; files are read later."""
    held, size = [], 0
    for job in islice(jobs, count):
        held.append(job)
        image = raw(job)
        size += (
            image.nbytes if isinstance(image, np.ndarray) else len(image) if isinstance(image, bytes) else 0
        )
        if size > MAX_HELD:
            break
    return held
