"""Preprocessing: raw images to uint8 arrays at the model's resolution, on every core."""

import math
import os
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice, repeat
from multiprocessing.pool import AsyncResult, ThreadPool
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from isopix.core.random import generator
from isopix.data import decode
from isopix.data.dataset import DataConfig, Resample
from isopix.data.sources.base import SourceSplit
from isopix.data.store import ENCODERS, Encode

T = TypeVar("T")
R = TypeVar("R")

# All three average over the box when downsampling (antialias); `area` repeats pixels when upsampling.
FILTERS: dict[Resample, Image.Resampling] = {
    "area": Image.Resampling.BOX,
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
}
IMAGES_PER_CHUNK = 32  # per thread: with single images, threads gain nothing over one core
CHUNKS_PER_THREAD = 8  # in memory at a time
MAX_HELD = 64 * 2**20  # bytes of images as they are read, and as they are kept, in memory at a time


CropPosition = tuple[float, float]  # y and x within the image, from 0 (top, left) to just below 1


@dataclass(frozen=True)
class PreprocessedImage:
    """An image at the model's resolution, its full-resolution version if kept, and a hash of its content."""

    image: NDArray[np.uint8]  # [3 rows cols], or encoded
    full: NDArray[np.uint8] | None  # [3 H W], or encoded
    full_size: tuple[int, int] | None  # its H and W
    content_hash: int


def preprocess(
    split: SourceSplit,
    config: DataConfig,
    full_side: int | None = None,
    encode: Encode = ENCODERS["pixels"],
) -> Iterator[PreprocessedImage | str]:
    """Yield each image of the split in order, encoded, or the reason why it cannot be read.

    With `full_side`, the full-resolution images are kept, too, of this shorter side.
    """
    positions: Iterator[CropPosition | None] = repeat(None, split.num_images)
    if config.crop == "random":
        places = torch.rand(split.num_images, 2, generator=generator(config.seed, "crop"))
        positions = map(tuple, places.double().tolist())
    jobs = zip(split.images(), positions, strict=True)
    work = partial(_preprocess, config=config, full_side=full_side, encode=encode)
    yield from map_images(jobs, work, itemgetter(0), kept_bytes=num_bytes(config, full_side))


def num_bytes(config: DataConfig, full_side: int | None) -> int:
    """Return the bytes of the pixels of an image, and about those of its full-resolution version."""
    return 3 * (config.rows * config.cols + (full_side or 0) ** 2)


def pixel_settings(config: DataConfig, full_side: int | None) -> dict[str, Any]:
    """Return the settings that decide the pixels, as they have been named in hashes from the first."""
    found: dict[str, Any] = {name: getattr(config, name) for name in ("rows", "cols", "resample")}
    found |= {"full_side": full_side, "crop_seed": config.seed if config.crop == "random" else None}
    if config.crop_fraction != 1:
        found["crop_fraction"] = config.crop_fraction
    if config.crop in ("squash", "resized_center"):
        found["squash" if config.crop == "squash" else "resize_first"] = True
    if config.max_pixels != decode.MAX_PIXELS:
        found["max_pixels"] = config.max_pixels
    if config.white is not None:
        found["white"] = config.white
    return found


def min_side(config: DataConfig, full_side: int | None) -> int:
    """Return the smallest side to which a JPEG may be reduced: twice the largest that is needed."""
    if config.crop in ("squash", "resized_center"):
        return decode.NEVER_REDUCED
    return math.ceil(2 * max(config.rows, config.cols, full_side or 0) / config.crop_fraction)


def _preprocess(
    job: tuple[decode.RawImage, CropPosition | None],
    config: DataConfig,
    full_side: int | None,
    encode: Encode,
) -> PreprocessedImage | str:
    (raw, position), least = job, min_side(config, full_side)
    try:
        content = decode.read_content(raw)
        rgb = decode.decode_image(content, least, max_pixels=config.max_pixels, white=config.white)
        image, number = encode(resize(rgb, config, position), None), decode.content_number(content, rgb)
        if full_side is None:
            return PreprocessedImage(image, None, None, number)
        full = resize_shorter_side(rgb, full_side)
        size = (full.shape[1], full.shape[2])
        source = content if isinstance(content, bytes) and size == (rgb.height, rgb.width) else None
        return PreprocessedImage(image, encode(full, source), size, number)
    except Exception as error:  # damaged files raise OSError, ValueError, SyntaxError, struct.error and more
        return decode.failure_reason(error)


def map_images(
    jobs: Iterator[T], work: Callable[[T], R], raw: Callable[[T], decode.RawImage], *, kept_bytes: int
) -> Iterator[R]:
    """Yield `work(job)` for each job, in order; `raw` gives its image, `kept_bytes` is the size of a result.

    Threads, not processes: Pillow's decoders release the GIL, and pixels need not be copied.
    At a stop signal they are left alone.
    """
    threads = os.cpu_count() or 1
    most = min(IMAGES_PER_CHUNK * CHUNKS_PER_THREAD * threads, max(threads, MAX_HELD // kept_bytes))
    with ThreadPool(threads) as pool, warnings.catch_warnings():
        warnings.filterwarnings("error", module=r"PIL\.")  # Pillow warns about files it reads in part
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # up to `max_pixels` images are read
        ready, pending = list[AsyncResult[list[R]]](), list[AsyncResult[list[R]]]()
        while (held := _take(jobs, raw, most)) or pending:
            size = max(1, min(IMAGES_PER_CHUNK, -(-len(held) // threads)))
            chunks = [held[first : first + size] for first in range(0, len(held), size)]
            ready, pending = pending, [pool.map_async(work, chunk, len(chunk)) for chunk in chunks]
            for each in ready:
                yield from each.get()


def _take(jobs: Iterator[T], raw: Callable[[T], decode.RawImage], count: int) -> list[T]:
    """Return the next jobs, up to this many and about `MAX_HELD` bytes of images; files are read later."""
    held, size = [], 0
    for job in islice(jobs, count):
        held.append(job)
        image = raw(job)
        size += (
            0 if isinstance(image, Path) else image.nbytes if isinstance(image, np.ndarray) else len(image)
        )
        if size > MAX_HELD:
            break
    return held


def resize(rgb: Image.Image, config: DataConfig, position: CropPosition | None) -> NDArray[np.uint8]:
    """Return uint8 [3 rows cols] of an RGB image, cropped as its settings say."""
    rows, cols, resample, fraction = config.rows, config.cols, config.resample, config.crop_fraction
    if config.crop == "resized_center":
        return resize_and_crop(rgb, rows, cols, resample, fraction=fraction)
    whole = config.crop == "squash"
    box = None if whole else crop_box(*rgb.size, rows, cols, position, fraction=fraction)
    return to_chw(rgb.resize((cols, rows), FILTERS[resample], box))


def crop_box(
    width: int, height: int, rows: int, cols: int, position: CropPosition | None, *, fraction: float = 1.0
) -> tuple[float, float, float, float]:
    """Return (left, top, right, bottom) of the `fraction` of the largest rows:cols box, centered for None."""
    scale = fraction * min(height / rows, width / cols)
    box_height, box_width = scale * rows, scale * cols
    y, x = position or (None, None)
    top, left = _corner(height - box_height, y), _corner(width - box_width, x)
    return left, top, min(left + box_width, float(width)), min(top + box_height, float(height))


def _corner(slack: float, position: float | None) -> float:
    steps = int(slack + 1e-6)  # whole pixels; the term absorbs the rounding of scale * rows
    return float(steps // 2 if position is None else min(int(position * (steps + 1)), steps))


def resize_and_crop(
    image: Image.Image, rows: int, cols: int, resample: Resample, *, fraction: float = 1.0
) -> NDArray[np.uint8]:
    """Return uint8 [3 rows cols] of the center of an image resized to `uncropped_side`, as Hugging Face."""
    width, height = image.size
    least_width, least_height = uncropped_side(cols, fraction), uncropped_side(rows, fraction)
    size = (least_width, height * least_width // width)
    if width * least_height > height * least_width:
        size = (width * least_height // height, least_height)
    if math.prod(size) > decode.MAX_PIXELS:
        resized = f"{width}x{height} pixels, which would be resized to {size[0]}x{size[1]}"
        raise ValueError(f"{resized}, above the limit of {decode.MAX_PIXELS:,}")
    left, top = (size[0] - cols) // 2, (size[1] - rows) // 2
    return to_chw(image.resize(size, FILTERS[resample]).crop((left, top, left + cols, top + rows)))


def uncropped_side(side: int, fraction: float) -> int:
    """Return the side of which a crop of `side` pixels is the given fraction, rounded down as timm does."""
    return int(side / fraction + 1e-6)  # the term absorbs the rounding of the fraction


def resize_shorter_side(image: Image.Image, side: int) -> NDArray[np.uint8]:
    """Return uint8 [3 H W] of an RGB image, downsampled until its shorter side is `side`; never upsampled."""
    ratio = side / min(image.size)
    if ratio >= 1:
        return to_chw(image)
    width, height = (max(side, round(length * ratio)) for length in image.size)
    return to_chw(image.resize((width, height), Image.Resampling.BOX))


def to_chw(image: Image.Image) -> NDArray[np.uint8]:
    """Return uint8 [3 H W] of an RGB image."""
    return np.ascontiguousarray(np.asarray(image).transpose(2, 0, 1))
