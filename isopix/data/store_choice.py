"""The choice of a store, and the estimate of what it will take, told before any work starts."""

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from isopix.data.cache import cache_folder
from isopix.data.encoded_file import decode_pixels
from isopix.data.preprocess import PreprocessConfig, PreprocessedImage, preprocess
from isopix.data.sources.base import Source, SplitName
from isopix.data.store import STORES, ImageStore, StoreName
from isopix.storage.artifact import partial_path
from isopix.storage.folder_test import free_bytes

StoreChoice = Literal["auto", "pixels", "encoded"]

SAMPLE = 64  # images that are decoded for the estimate
# `auto` encodes what would be larger than both as pixels: below the first, decoding costs more than it saves.
MIN_ENCODED = 4 * 2**30  # bytes
MAX_DISK_FRACTION = 0.25  # of the free bytes of the cache's disk
SHORT = 10.0  # seconds of work about which nothing is told

logger = logging.getLogger(__name__)
Configs = Mapping[SplitName, PreprocessConfig]


@dataclass(frozen=True)
class StoreEstimate:
    """Number of images, bytes and seconds of writing in each store, and images a second that one core decodes
    from the encoded one.
    """

    num_images: int
    nbytes: dict[StoreName, int]
    seconds: dict[StoreName, float]
    decode_rate: float

    def describe(self, store: StoreName, choice: StoreChoice, free: int) -> str:
        """Return the estimate and the store that was chosen, with `free` bytes of disk, in one line."""
        stores = "; ".join(
            f"{name} {_size(size)}, about {_duration(self.seconds[name])} to write at "
            f"{self.num_images / self.seconds[name]:,.0f} images per second"
            for name, size in self.nbytes.items()
        )
        read = f"decoded at {self.decode_rate:,.0f} images per second on each core"
        return (
            f"{self.num_images:,} images are not in the cache yet; {stores}, then {read}; "
            f"{_size(free)} of disk free; writing {store} (data.store={choice})"
        )


def choose_store(source: Source, configs: Configs, cache: Path, choice: StoreChoice) -> ImageStore:
    """Return the store to read the images of a source from, and to write them to if it does not have them.

    `auto` is the store that the cache has, or has begun to write, or else `automatic_store`. Work that will
    take longer than a few seconds is announced with its estimate, as a message of the log.
    """
    folders = {name: cache_folder(source, configs, cache, store) for name, store in STORES.items()}
    begun = {name: partial_path(folder) for name, folder in folders.items()}
    there = [name for each in (folders, begun) for name, folder in each.items() if folder.is_dir()]
    if choice in ("auto", *there) and there:
        return STORES[there[0] if choice == "auto" else choice]
    if sum(split.num_images for split in source.splits.values()) <= SAMPLE:
        return STORES["pixels" if choice == "auto" else choice]
    estimate, free = estimate_stores(source, configs), free_bytes(cache)
    name = automatic_store(estimate.nbytes["pixels"], free) if choice == "auto" else choice
    if estimate.seconds[name] > SHORT:
        logger.info("%s", estimate.describe(name, choice, free))
    return STORES[name]


def automatic_store(pixel_bytes: int, free: int) -> StoreName:
    """Return `encoded` for images of more than `MIN_ENCODED` bytes and `MAX_DISK_FRACTION` of the free disk,
    once decoded.
    """
    return "encoded" if pixel_bytes > max(MIN_ENCODED, MAX_DISK_FRACTION * free) else "pixels"


def estimate_stores(source: Source, configs: Configs) -> StoreEstimate:
    """Return the estimate of a source by its first `SAMPLE` training images, which are decoded and encoded.

    Images that are kept at full resolution are counted where the settings keep them.
    """
    num_images = sum(split.num_images for split in source.splits.values())
    nbytes, seconds = dict.fromkeys(STORES, 0.0), dict.fromkeys(STORES, 0.0)
    rate = 0.0
    for kind in dict.fromkeys(configs.values()):
        count = sum(split.num_images for name, split in source.splits.items() if configs[name] == kind)
        sample = _measure(source, kind)
        rate = rate or sample.decode_rate
        for name in STORES:
            nbytes[name] += count * sample.nbytes[name] / sample.num_images
            seconds[name] += count * sample.seconds[name] / sample.num_images
    return StoreEstimate(num_images, {name: round(size) for name, size in nbytes.items()}, seconds, rate)


def _measure(source: Source, config: PreprocessConfig) -> StoreEstimate:
    """Prepare the first training images for each store, and decode those of the encoded one; unreadable ones
    take no bytes.
    """
    train = source.splits["train"]
    count = min(train.num_images, SAMPLE)
    first = replace(train, num_images=count)
    nbytes, seconds = dict[StoreName, int](), dict[StoreName, float]()
    found: list[PreprocessedImage] = []
    for name, store in STORES.items():
        start = time.perf_counter()
        results = list(preprocess(first, config, store.encode))
        seconds[name] = max(time.perf_counter() - start, 1e-6, *seconds.values())  # files are in memory now
        found = [each for each in results if isinstance(each, PreprocessedImage)]
        nbytes[name] = sum(
            each.image.nbytes + (0 if each.full is None else each.full.nbytes) for each in found
        )
    start = time.perf_counter()
    for each in found:
        decode_pixels((each.image if each.full is None else each.full).tobytes())  # what training reads
    return StoreEstimate(count, nbytes, seconds, len(found) / max(time.perf_counter() - start, 1e-6))


def _size(nbytes: int) -> str:
    return f"{nbytes / 2**30:,.1f} GiB" if nbytes >= 2**30 else f"{nbytes / 2**20:,.1f} MiB"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
