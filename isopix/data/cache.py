"""The cache: prepared images as .npy files, in a folder named by a hash of content and preparation.

A folder is written beside and renamed, and every byte of it is hashed again before it is used: a damaged or
half-written one is made anew.
"""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO

import numpy as np
import PIL
import torch
from numpy.lib import format as npy
from numpy.typing import NDArray
from torch import Tensor

from isopix.core.config import to_dict
from isopix.data.prepare import Preparation, Prepared, prepare
from isopix.data.source import Part, Source, SplitName, digest_files, digest_of
from isopix.data.splits import Split, Wide

LAYOUT = 1  # to be raised whenever the same source and preparation would give other pixels or other files
RECORD = "record.json"


@dataclass(frozen=True)
class BadFile:
    """A picture that could not be read, and why."""

    path: str
    reason: str


@dataclass(frozen=True)
class Stored:
    """What the cache holds of a source: `key` names the folder, `content` the source and its preparation."""

    key: str
    content: str
    splits: dict[SplitName, Split]
    bad: tuple[BadFile, ...]


def stored(source: Source, how: dict[SplitName, Preparation], cache: Path) -> Stored:
    """The prepared splits of a source: from the cache if it holds them whole, else decoded and put there.

    Raises RuntimeError if the cache folder cannot be written.
    """
    content = _content(source, how)
    key = digest_of(content.encode(), PIL.__version__.encode())  # another Pillow may give other pixels
    held = _read(cache / key, source, content)
    if held is not None:
        return held
    try:
        cache.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(cache / key, ignore_errors=True)
        with TemporaryDirectory(prefix=".writing-", dir=cache, ignore_cleanup_errors=True) as scratch:
            folder = Path(scratch) / key
            folder.mkdir()
            _write(folder, source, how)
            _publish(folder, cache / key)
    except OSError as error:
        raise RuntimeError(
            f"image cache {cache} cannot be written ({error.strerror}); set ISOPIX_CACHE to another folder"
        ) from error
    held = _read(cache / key, source, content)
    if held is None:
        raise RuntimeError(f"image cache {cache / key} is damaged right after writing; check the disk")
    return held


def _content(source: Source, how: dict[SplitName, Preparation]) -> str:
    settings = {name: to_dict(preparation) for name, preparation in how.items()}
    pieces = (str(LAYOUT), source.digest, json.dumps(settings, sort_keys=True))
    return digest_of(*(piece.encode() for piece in pieces))


def _publish(folder: Path, target: Path) -> None:
    try:
        folder.rename(target)
    except OSError:
        if not target.is_dir():  # else another process was faster, and its content is the same
            raise


def _write(folder: Path, source: Source, how: dict[SplitName, Preparation]) -> None:
    bad = {name: _write_part(folder, name, part, how[name]) for name, part in source.parts.items()}
    files = {path.name: path for path in sorted(folder.iterdir())}
    record = {"bad": bad, "files": digest_files(files)}
    text = json.dumps(record, sort_keys=True)
    (folder / RECORD).write_text(json.dumps({"digest": digest_of(text.encode()), "record": text}))


def _write_part(folder: Path, name: SplitName, part: Part, how: Preparation) -> list[tuple[int, str]]:
    """Which pictures cannot be read, by number (their paths may be others tomorrow), and why."""
    good, shapes, bad = [], [], []
    with (
        _Npy(folder / f"{name}.images.npy", (3, how.rows, how.cols)) as images,
        _Npy(folder / f"{name}.pixels.npy", ()) as pixels,
    ):
        for i, result in enumerate(prepare(part, how)):
            if not isinstance(result, Prepared):
                bad.append((i, result))
                continue
            good.append(i)
            images.append(result.image)
            if result.wide is not None:
                shapes.append(result.wide.shape[1:])
                pixels.append(result.wide.reshape(-1))
    if part.labels is not None:
        np.save(folder / f"{name}.labels.npy", part.labels[good])
    np.save(folder / f"{name}.shapes.npy", np.array(shapes, dtype=np.int64).reshape(-1, 2))
    return bad


class _Npy:
    """A .npy file of uint8 that grows by plain writes: a full disk is an OSError (it kills a memory map)."""

    def __init__(self, path: Path, shape: tuple[int, ...]):
        self.path, self.shape, self.bytes = path, shape, 0

    def __enter__(self) -> "_Npy":
        self.file: BinaryIO = self.path.open("wb")
        self._header()
        return self

    def append(self, values: NDArray[np.uint8]) -> None:
        self.bytes += self.file.write(values.data)

    def __exit__(self, *_: object) -> None:
        with self.file:
            self.file.seek(0)
            self._header()  # NumPy pads the header, so that the final one is as long as the first

    def _header(self) -> None:
        rows = self.bytes // int(np.prod(self.shape, dtype=np.int64))
        header = {"descr": "|u1", "fortran_order": False, "shape": (rows, *self.shape)}
        npy.write_array_header_1_0(self.file, header)


def _read(folder: Path, source: Source, content: str) -> Stored | None:
    """None if the folder is not there, or not what was written."""
    try:
        sealed = json.loads((folder / RECORD).read_text())
        text = sealed["record"]
        record = json.loads(text)
        files = {name: folder / name for name in record["files"]}
        if digest_of(text.encode()) != sealed["digest"] or digest_files(files) != record["files"]:
            return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    splits = {name: _read_part(folder, name, part.labels is not None) for name, part in source.parts.items()}
    bad = [
        BadFile(part.name(i), why) for name, part in source.parts.items() for i, why in record["bad"][name]
    ]
    return Stored(folder.name, content, splits, tuple(bad))


def _read_part(folder: Path, name: SplitName, labelled: bool) -> Split:
    labels = _map(folder / f"{name}.labels.npy") if labelled else None
    shapes = _map(folder / f"{name}.shapes.npy")
    heights, widths = shapes.unbind(1)
    sizes = 3 * heights * widths
    wide = Wide(_map(folder / f"{name}.pixels.npy"), sizes.cumsum(0) - sizes, heights, widths)
    images = _map(folder / f"{name}.images.npy")
    return Split(images, labels, wide if len(shapes) else None)


def _map(path: Path) -> Tensor:
    """Memory-mapped and private: pixels are read when needed, and writing to them never reaches the file."""
    with path.open("rb") as file:
        npy.read_magic(file)
        shape, _, dtype = npy.read_array_header_1_0(file)
    if 0 in shape:  # nothing to map
        return torch.from_numpy(np.zeros(shape, dtype))
    return torch.from_numpy(np.load(path, mmap_mode="c"))
