"""The cache: prepared images as .npy files, in a folder named by a hash of content and preparation.

A damaged or half-written folder is made anew.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import PIL

from isopix.core.config import to_dict
from isopix.data.preprocess import Preparation, Prepared, prepare
from isopix.data.sources.base import Part, Source, SplitName, digest_of
from isopix.data.splits import Split, Wide
from isopix.storage import artifact

LAYOUT = 1  # to be raised whenever the same source and preparation would give other pixels or other files


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
        artifact.write_artifact(cache / key, lambda folder: _write(folder, source, how))
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


def _write(folder: Path, source: Source, how: dict[SplitName, Preparation]) -> dict[str, Any]:
    return {"bad": {name: _write_part(folder, name, part, how[name]) for name, part in source.parts.items()}}


def _write_part(folder: Path, name: SplitName, part: Part, how: Preparation) -> list[tuple[int, str]]:
    """Which pictures cannot be read, by number (their paths may be others tomorrow), and why."""
    good, shapes, bad = [], [], []
    with (
        artifact.NpyWriter(folder / f"{name}.images.npy", (3, how.rows, how.cols)) as images,
        artifact.NpyWriter(folder / f"{name}.pixels.npy", ()) as pixels,
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


def _read(folder: Path, source: Source, content: str) -> Stored | None:
    """None if the folder is not there, or not what was written."""
    record = artifact.read_manifest(folder)
    if record is None:
        return None
    splits = {name: _read_part(folder, name, part.labels is not None) for name, part in source.parts.items()}
    bad = [
        BadFile(part.name(i), why) for name, part in source.parts.items() for i, why in record["bad"][name]
    ]
    return Stored(folder.name, content, splits, tuple(bad))


def _read_part(folder: Path, name: SplitName, labelled: bool) -> Split:
    labels = artifact.open_memmap(folder / f"{name}.labels.npy") if labelled else None
    shapes = artifact.open_memmap(folder / f"{name}.shapes.npy")
    heights, widths = shapes.unbind(1)
    sizes = 3 * heights * widths
    wide = Wide(artifact.open_memmap(folder / f"{name}.pixels.npy"), sizes.cumsum(0) - sizes, heights, widths)
    images = artifact.open_memmap(folder / f"{name}.images.npy")
    return Split(images, labels, wide if len(shapes) else None)
