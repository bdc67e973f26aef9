"""Image cache: preprocessed images of a store, in a folder named by a hash of content and preprocessing.

A damaged or incomplete folder is written anew.
"""

import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import PIL
import torch

from isopix.core.progress import CountDone, track
from isopix.data.preprocess import PreprocessConfig, PreprocessedImage, preprocess
from isopix.data.results import BadFile
from isopix.data.sources.base import Source, SourceSplit, SplitName
from isopix.data.splits import Split
from isopix.data.store import STORES, ImageStore
from isopix.storage import artifact
from isopix.storage.arrays import NpyWriter, open_memmap
from isopix.storage.growing_folder import GrowingFolder
from isopix.storage.hashing import hash_bytes

SAVE_SECONDS = 10.0  # between saves of what a kill leaves
CACHE_VERSION = 3  # raise it when the same source and preprocessing would give other pixels or files


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
        artifact.grow_artifact(folder, lambda growing: _write(growing, source, configs, store))
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


def _write(growing: GrowingFolder, source: Source, configs: Configs, store: ImageStore) -> dict[str, Any]:
    """Write the splits from where the folder was last saved; return the bad images of each: index and reason
    (paths may change later).
    """
    state = _State.of(growing.record)
    total = sum(split.num_images for split in source.splits.values())
    with track("preparing images", total, sum(state.done.values())) as count:
        for name, split in source.splits.items():
            _write_split(growing, name, split, configs[name], store, state, count)
    return {"bad_files": state.bad_files}


@dataclass
class _State:
    """What has been written: the number of images of each split, and those that cannot be read."""

    done: dict[SplitName, int] = field(default_factory=dict)
    bad_files: dict[SplitName, list[tuple[int, str]]] = field(default_factory=dict)

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> "_State":
        """Return the state that was saved as JSON."""
        bad = {
            name: [(i, reason) for i, reason in each] for name, each in record.get("bad_files", {}).items()
        }
        return cls(record.get("done", {}), bad)


def _write_split(
    growing: GrowingFolder,
    name: SplitName,
    split: SourceSplit,
    config: PreprocessConfig,
    store: ImageStore,
    state: _State,
    count: CountDone,
) -> None:
    first, bad = state.done.setdefault(name, 0), state.bad_files.setdefault(name, [])
    writer = _SplitWriter(growing, name, config, store)
    saved = time.monotonic()
    for i, result in enumerate(preprocess(split, config, store.encode, start=first), start=first):
        if isinstance(result, PreprocessedImage):
            writer.append(result)
        else:
            bad.append((i, result))
        state.done[name] = i + 1
        count(sum(state.done.values()))
        if time.monotonic() - saved > SAVE_SECONDS:
            growing.save(asdict(state))
            saved = time.monotonic()
    writer.finish()
    if split.groups is not None:
        np.save(growing.path / f"{name}.groups.npy", np.delete(split.groups, [index for index, _ in bad]))
    growing.save(asdict(state))


class _SplitWriter:
    """The files of a split: images, hashes of their content and, if they are kept, the full-resolution ones
    and their sizes.
    """

    def __init__(self, growing: GrowingFolder, name: SplitName, config: PreprocessConfig, store: ImageStore):
        self.images = store.image_writer(growing, name, config)
        self.full = store.full_writer(growing, name)
        self.hashes = NpyWriter(growing.file(f"{name}.hashes.npy"), (), np.int64)
        self.shapes = NpyWriter(growing.file(f"{name}.shapes.npy"), (2,), np.int64)

    def append(self, result: PreprocessedImage) -> None:
        """Write an image."""
        self.images.append(result.image)
        self.hashes.append(result.content_hash)
        if result.full is not None and result.full_size is not None:
            self.full.append(result.full)
            self.shapes.append(result.full_size)

    def finish(self) -> None:
        """Complete the files."""
        for each in (self.images, self.full, self.hashes, self.shapes):
            each.finish()


def _read(
    folder: Path, source: Source, configs: Configs, content_hash: str, store: ImageStore
) -> CachedSource | None:
    """Return None if the folder does not exist or is damaged."""
    manifest = artifact.read_manifest(folder)
    if manifest is None:
        return None
    splits, first = {}, 0
    for name, split in source.splits.items():
        bad = [i for i, _ in manifest["bad_files"][name]]
        read = _read_split(folder, name, split, bad, configs[name], store)
        rows = np.delete(np.arange(first, first + split.num_images), bad)
        splits[name] = replace(read, rows=torch.from_numpy(rows))
        first += split.num_images
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
