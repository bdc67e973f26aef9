"""Image cache: preprocessed images as .npy files, in a folder named by a hash of content and preprocessing.

A damaged or incomplete folder is written anew.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import PIL
import torch

from isopix.data.preprocess import PreprocessConfig, PreprocessedImage, preprocess
from isopix.data.sources.base import Source, SourceSplit, SplitName
from isopix.data.splits import FullResolution, Split
from isopix.storage import artifact
from isopix.storage.hashing import hash_bytes
from isopix.storage.npy import NpyWriter, open_memmap

CACHE_VERSION = 3  # raise it when the same source and preprocessing would give other pixels or files


@dataclass(frozen=True)
class BadFile:
    """An image that could not be read, and why."""

    path: str
    reason: str


@dataclass(frozen=True)
class CachedSource:
    """The preprocessed splits of a source; unlike `key`, `content_hash` does not depend on Pillow."""

    key: str  # the folder's name
    content_hash: str
    splits: dict[SplitName, Split]
    bad_files: tuple[BadFile, ...]


def cached_source(source: Source, configs: dict[SplitName, PreprocessConfig], cache: Path) -> CachedSource:
    """Return the preprocessed splits of a source: from the cache if it has them, or else decoded and added.

    Raises RuntimeError if the cache folder cannot be written.
    """
    content_hash = _content_hash(source, configs)
    key = hash_bytes(content_hash.encode(), PIL.__version__.encode())  # Pillow versions may differ in pixels
    cached = _read(cache / key, source, content_hash)
    if cached is not None:
        return cached
    try:
        artifact.write_artifact(cache / key, lambda folder: _write(folder, source, configs))
    except OSError as error:
        raise RuntimeError(
            f"image cache {cache} cannot be written ({error.strerror}); set ISOPIX_CACHE to another folder"
        ) from error
    cached = _read(cache / key, source, content_hash)
    if cached is None:
        raise RuntimeError(f"image cache {cache / key} is damaged right after writing; check the disk")
    return cached


def _content_hash(source: Source, configs: dict[SplitName, PreprocessConfig]) -> str:
    settings = json.dumps({name: config.identity() for name, config in configs.items()}, sort_keys=True)
    return hash_bytes(*(piece.encode() for piece in (str(CACHE_VERSION), source.content_hash, settings)))


def _write(folder: Path, source: Source, configs: dict[SplitName, PreprocessConfig]) -> dict[str, Any]:
    splits = source.splits.items()
    return {"bad_files": {name: _write_split(folder, name, split, configs[name]) for name, split in splits}}


def _write_split(
    folder: Path, name: SplitName, split: SourceSplit, config: PreprocessConfig
) -> list[tuple[int, str]]:
    """Write the images that can be read; return index and reason of the others (paths may change later)."""
    good, hashes, shapes, bad = [], [], [], []
    with (
        NpyWriter(folder / f"{name}.images.npy", (3, config.rows, config.cols)) as images,
        NpyWriter(folder / f"{name}.pixels.npy", ()) as pixels,
    ):
        for i, result in enumerate(preprocess(split, config)):
            if not isinstance(result, PreprocessedImage):
                bad.append((i, result))
                continue
            good.append(i)
            hashes.append(result.content_hash)
            images.append(result.image)
            if result.full is not None:
                shapes.append(result.full.shape[1:])
                pixels.append(result.full.reshape(-1))
    if split.groups is not None:
        np.save(folder / f"{name}.groups.npy", split.groups[good])
    np.save(folder / f"{name}.hashes.npy", np.array(hashes, dtype=np.int64))
    np.save(folder / f"{name}.shapes.npy", np.array(shapes, dtype=np.int64).reshape(-1, 2))
    return bad


def _read(folder: Path, source: Source, content_hash: str) -> CachedSource | None:
    """Return None if the folder does not exist or is damaged."""
    manifest = artifact.read_manifest(folder)
    if manifest is None:
        return None
    bad = {name: [i for i, _ in manifest["bad_files"][name]] for name in source.splits}
    splits = {name: _read_split(folder, name, split, bad[name]) for name, split in source.splits.items()}
    bad_files = tuple(
        BadFile(split.image_name(i), reason)
        for name, split in source.splits.items()
        for i, reason in manifest["bad_files"][name]
    )
    return CachedSource(folder.name, content_hash, splits, bad_files)


def _read_split(folder: Path, name: SplitName, source: SourceSplit, bad: list[int]) -> Split:
    labels = None if source.labels is None else torch.from_numpy(np.delete(source.labels, bad))
    groups = open_memmap(folder / f"{name}.groups.npy") if source.groups is not None else None
    shapes = open_memmap(folder / f"{name}.shapes.npy")
    heights, widths = shapes.unbind(1)
    sizes = 3 * heights * widths
    pixels = open_memmap(folder / f"{name}.pixels.npy")
    full = FullResolution(pixels, sizes.cumsum(0) - sizes, heights, widths)
    images, hashes = (open_memmap(folder / f"{name}.{part}.npy") for part in ("images", "hashes"))
    return Split(images, labels, full if len(shapes) else None, hashes, groups)
