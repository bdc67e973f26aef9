"""Image cache: preprocessed images of a store, in a folder named by a hash of content and preprocessing.

A damaged or incomplete folder is written anew.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import PIL
import torch

from isopix.data.preprocess import PreprocessConfig, PreprocessedImage, preprocess
from isopix.data.sources.base import Source, SourceSplit, SplitName
from isopix.data.splits import Split
from isopix.data.store import STORES, ImageStore
from isopix.storage import artifact
from isopix.storage.hashing import hash_bytes
from isopix.storage.npy import open_memmap

CACHE_VERSION = 3  # raise it when the same source and preprocessing would give other pixels or files


@dataclass(frozen=True)
class BadFile:
    """An image that could not be read, and why."""

    path: str
    reason: str


@dataclass(frozen=True)
class CachedSource:
    """The preprocessed splits of a source; unlike `key`, `content_hash` does not depend on Pillow and on the
    store.
    """

    key: str  # the folder's name
    content_hash: str
    splits: dict[SplitName, Split]
    bad_files: tuple[BadFile, ...]


Configs = Mapping[SplitName, PreprocessConfig]


def cached_source(
    source: Source, configs: Configs, cache: Path, store: ImageStore = STORES["pixels"]
) -> CachedSource:
    """Return the preprocessed splits of a source: from the cache if it has them, or else decoded and added.

    Raises RuntimeError if the cache folder cannot be written.
    """
    content_hash, folder = _content_hash(source, configs), cache_folder(source, configs, cache, store)
    cached = _read(folder, source, configs, content_hash, store)
    if cached is not None:
        return cached
    try:
        artifact.write_artifact(folder, lambda scratch: _write(scratch, source, configs, store))
    except OSError as error:
        raise RuntimeError(
            f"image cache {cache} cannot be written ({error.strerror}); set ISOPIX_CACHE to another folder"
        ) from error
    cached = _read(folder, source, configs, content_hash, store)
    if cached is None:
        raise RuntimeError(f"image cache {folder} is damaged right after writing; check the disk")
    return cached


def cache_folder(source: Source, configs: Configs, cache: Path, store: ImageStore) -> Path:
    """Return where the splits of a source are, or would be written, in a store."""
    parts = [_content_hash(source, configs), PIL.__version__]  # Pillow versions may differ in pixels
    parts += [] if store.name == "pixels" else [store.name]  # the first store, of every earlier version
    return cache / hash_bytes(*(part.encode() for part in parts))


def _content_hash(source: Source, configs: Configs) -> str:
    settings = json.dumps({name: config.identity() for name, config in configs.items()}, sort_keys=True)
    return hash_bytes(*(piece.encode() for piece in (str(CACHE_VERSION), source.content_hash, settings)))


def _write(folder: Path, source: Source, configs: Configs, store: ImageStore) -> dict[str, Any]:
    splits = source.splits.items()
    bad = {name: _write_split(folder, name, split, configs[name], store) for name, split in splits}
    return {"bad_files": bad}


def _write_split(
    folder: Path, name: SplitName, split: SourceSplit, config: PreprocessConfig, store: ImageStore
) -> list[tuple[int, str]]:
    """Write the images that can be read; return index and reason of the others (paths may change later)."""
    good, hashes, shapes, bad = [], [], [], []
    with (
        store.image_writer(folder, name, config) as images,
        store.full_writer(folder, name) as full,
    ):
        for i, result in enumerate(preprocess(split, config, store.encode)):
            if not isinstance(result, PreprocessedImage):
                bad.append((i, result))
                continue
            good.append(i)
            hashes.append(result.content_hash)
            images.append(result.image)
            if result.full is not None:
                shapes.append(result.full_size)
                full.append(result.full)
    if split.groups is not None:
        np.save(folder / f"{name}.groups.npy", split.groups[good])
    np.save(folder / f"{name}.hashes.npy", np.array(hashes, dtype=np.int64))
    np.save(folder / f"{name}.shapes.npy", np.array(shapes, dtype=np.int64).reshape(-1, 2))
    return bad


def _read(
    folder: Path, source: Source, configs: Configs, content_hash: str, store: ImageStore
) -> CachedSource | None:
    """Return None if the folder does not exist or is damaged."""
    manifest = artifact.read_manifest(folder)
    if manifest is None:
        return None
    splits = {}
    for name, split in source.splits.items():
        bad = [i for i, _ in manifest["bad_files"][name]]
        splits[name] = _read_split(folder, name, split, bad, configs[name], store)
    bad_files = tuple(
        BadFile(split.image_name(i), reason)
        for name, split in source.splits.items()
        for i, reason in manifest["bad_files"][name]
    )
    return CachedSource(folder.name, content_hash, splits, bad_files)


def _read_split(
    folder: Path,
    name: SplitName,
    source: SourceSplit,
    bad: list[int],
    config: PreprocessConfig,
    store: ImageStore,
) -> Split:
    labels = None if source.labels is None else torch.from_numpy(np.delete(source.labels, bad))
    groups = open_memmap(folder / f"{name}.groups.npy") if source.groups is not None else None
    hashes = open_memmap(folder / f"{name}.hashes.npy")
    full = None if config.full_side is None else store.open_full(folder, name)
    return Split(store.open_images(folder, name, config), labels, full, hashes, groups)
