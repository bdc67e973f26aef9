"""Image cache: preprocessed images, in a folder named by a hash of content and preprocessing."""

import itertools
import json
import logging
from array import array
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import PIL
import torch

from isopix.core.progress import track
from isopix.data.dataset import DataConfig
from isopix.data.decode import image_suffixes
from isopix.data.preprocess import PreprocessedImage, num_bytes, pixel_settings, preprocess
from isopix.data.results import BadFile
from isopix.data.sources.base import Source, SplitName
from isopix.data.splits import Split
from isopix.data.store import ENCODERS, StoreName, open_full, open_images
from isopix.storage.atomic import exclusive_lock
from isopix.storage.cache import free_bytes, read_manifest, write_artifact
from isopix.storage.provenance import hash_bytes

BadImages = dict[SplitName, list[Any]]  # index and reason of each; paths may change later

CONTENT_VERSION = 3  # raise it when the same source and preprocessing would give other pixels
FILES_VERSION = 5  # raise it when they would be in other files
# `auto` encodes what would be larger than both as pixels: below the first, decoding costs more than it saves.
MIN_ENCODED = 4 * 2**30  # bytes
MAX_DISK_FRACTION = 0.25  # of the free bytes of the cache's disk

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class CachedSource:
    """The preprocessed splits of a source; `content_hash` does not depend on Pillow and on the store."""

    key: str  # the folder's name
    content_hash: str
    splits: dict[SplitName, Split]
    bad_files: tuple[BadFile, ...]


def cached_source(source: Source, config: DataConfig, cache: Path) -> CachedSource:
    """Return the preprocessed splits of a source: from the cache, or else decoded and added to it."""
    found = {name: pixel_settings(config, config.full_side(name)) for name in source.splits}
    settings = json.dumps(found, sort_keys=True)
    pieces = (str(CONTENT_VERSION), source.content_hash, settings)
    content_hash = hash_bytes(*map(str.encode, pieces))
    # Pillow versions may differ in pixels; formats in what is an image.
    reader = (PIL.__version__, " ".join(image_suffixes()))
    folders: dict[StoreName, Path] = {
        name: cache / hash_bytes(*map(str.encode, (content_hash, *reader, name, str(FILES_VERSION))))
        for name in ENCODERS
    }
    store = _choose_store(source, config, folders)
    manifest = read_manifest(folders[store])
    if manifest is None:
        try:
            manifest = _write(folders[store], source, config, store)
        except OSError as error:
            raise RuntimeError(
                f"image cache {cache} cannot be written ({error.strerror}); set ISOPIX_CACHE to another one"
            ) from error
    splits, bad_files = _read(folders[store], source, config, store, manifest["bad_files"])
    return CachedSource(folders[store].name, content_hash, splits, bad_files)


def _choose_store(source: Source, config: DataConfig, folders: Mapping[StoreName, Path]) -> StoreName:
    """`auto` is the store that the cache has, or else `encoded` for images that take much of the disk."""
    if config.store != "auto":
        return config.store
    for name, folder in folders.items():
        if folder.is_dir():
            return name
    nbytes = sum(
        split.num_images * num_bytes(config, config.full_side(name)) for name, split in source.splits.items()
    )
    most = max(MIN_ENCODED, MAX_DISK_FRACTION * free_bytes(folders["pixels"]))
    return "encoded" if nbytes > most else "pixels"


def _write(folder: Path, source: Source, config: DataConfig, store: StoreName) -> dict[str, Any]:
    def write(scratch: Path) -> dict[str, Any]:
        numbers = itertools.count(1)
        with track("preparing images", sum(split.num_images for split in source.splits.values())) as count:
            bad_files = {
                name: _write_split(
                    scratch / name,
                    preprocess(split, config, config.full_side(name), ENCODERS[store]),
                    lambda: count(next(numbers)),
                )
                for name, split in source.splits.items()
            }
        return {"bad_files": bad_files}

    folder.parent.mkdir(parents=True, exist_ok=True)
    lock = f".{folder.name}.lock"
    for left in folder.parent.glob(".*.lock"):
        with suppress(ValueError), exclusive_lock(folder.parent, "a folder in", name=left.name):
            left.unlink(missing_ok=True)
    with exclusive_lock(folder.parent, "a folder in", name=lock, waiting=logger.info):
        manifest = read_manifest(folder) or write_artifact(folder, write)
        (folder.parent / lock).unlink(missing_ok=True)
    return manifest


def _write_split(
    path: Path, images: Iterable[PreprocessedImage | str], count: Callable[[], None]
) -> list[tuple[int, str]]:
    bad: list[tuple[int, str]] = []
    columns = {each: array("q") for each in ("hashes", "shapes", "image_sizes", "full_sizes")}
    with path.with_suffix(".images").open("wb") as file, path.with_suffix(".full").open("wb") as full:
        for i, result in enumerate(images):
            count()
            if isinstance(result, str):
                bad.append((i, result))
                continue
            file.write(result.image.data)
            columns["hashes"].append(result.content_hash)
            columns["image_sizes"].append(result.image.nbytes)
            if result.full is not None and result.full_size is not None:
                full.write(result.full.data)
                columns["full_sizes"].append(result.full.nbytes)
                columns["shapes"].extend(result.full_size)
    arrays = {each: np.array(values, np.int64) for each, values in columns.items()}
    np.savez(path.with_suffix(".npz"), allow_pickle=False, **arrays)
    return bad


def _read(
    folder: Path, source: Source, config: DataConfig, store: StoreName, bad_images: BadImages
) -> tuple[dict[SplitName, Split], tuple[BadFile, ...]]:
    splits: dict[SplitName, Split] = {}
    bad_files, first = [], 0
    for name, split in source.splits.items():
        kept = np.delete(np.arange(split.num_images), [i for i, _ in bad_images[name]])
        shape = (config.rows, config.cols)
        found = _read_split(folder / name, shape, store, whole=config.full_side(name) is not None)
        labels, groups = (
            None if each is None else torch.from_numpy(each[kept]) for each in (split.labels, split.groups)
        )
        splits[name] = replace(found, labels=labels, groups=groups, rows=torch.from_numpy(kept + first))
        bad_files += [BadFile(split.image_name(i), reason) for i, reason in bad_images[name]]
        first += split.num_images
    return splits, tuple(bad_files)


def _read_split(path: Path, shape: tuple[int, int], store: StoreName, *, whole: bool) -> Split:
    """Read a split without its labels and groups; with its full-resolution images if it is `whole`."""
    with np.load(path.with_suffix(".npz"), allow_pickle=False) as arrays:
        columns = {each: arrays[each] for each in arrays.files}
    ends = {
        name: columns[f"{name}_sizes"].cumsum(0) if store == "encoded" else None for name in ("image", "full")
    }
    full = None
    if whole:
        shapes = torch.from_numpy(columns["shapes"]).view(-1, 2)
        full = open_full(path.with_suffix(".full"), ends["full"], shapes)
    return Split(
        images=open_images(path.with_suffix(".images"), ends["image"], len(columns["hashes"]), shape),
        full_resolution=full,
        hashes=torch.from_numpy(columns["hashes"]),
    )
