"""Images that are given as arrays: NumPy archives."""

import zipfile
from collections.abc import Mapping, Sequence
from functools import cache
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from isopix.core.files import regular
from isopix.core.text import naming
from isopix.data.dataset import DataConfig
from isopix.data.decode import MAX_PIXELS
from isopix.data.sources.base import (
    READERS,
    SPLIT_NAMES,
    Reader,
    Source,
    SourceSplit,
    joined,
    with_class_names,
)
from isopix.data.sources.split_names import by_split, split_of, words_of
from isopix.storage.cache import file_index
from isopix.storage.provenance import hash_files

CLASS_NAMES = "class_names"  # an array of an .npz file
LABELS = {"x": "y", "images": "labels"}  # the word in the name of an array of labels, by that of images


def read_npz(path: Path, config: DataConfig) -> Source:
    """Read the arrays x_train and y_train, or train_images and train_labels, and so on (`by_split`); or x
    and y; and class_names. Images are uint8 [n H W], [n H W 1], [n H W 3] or [n H W 4], or uint16 [n H W].
    """
    with naming(f"dataset file {path}"), np.load(regular(path), allow_pickle=False) as arrays:
        pairs = _pairs_of_arrays(arrays.files)
        found = by_split(pairs, path, config.splits)
        splits = {
            split: joined([_npz_split(path, each, pairs[each], arrays) for each in found[split]])
            for split in SPLIT_NAMES
            if split in found
        }
        classes = arrays[CLASS_NAMES].astype(str).flatten().tolist() if CLASS_NAMES in arrays else []
    read = {CLASS_NAMES, *(name for own in found.values() for each in own for name in (each, pairs[each]))}
    unread = ", ".join(each for each in arrays.files if each not in read)
    notes = (f"ignored arrays in {path}: {unread}",) if unread else ()
    content_hash = hash_files({path.name: path}, file_index())[path.name]
    return with_class_names(Source(path.stem, splits, (), content_hash, notes=notes), classes)


def _pairs_of_arrays(names: Sequence[str]) -> dict[str, str]:
    """Return the name of the labels, empty without them, for that of each array of images."""
    lower = {each.lower(): each for each in names}
    for images, labels in LABELS.items():
        others = {name: [each for each in words_of(name) if not split_of(each)] for name in names}
        found = [name for name, words in others.items() if [each.lower() for each in words] == [images]]
        if found:
            return {each: lower.get(each.lower().replace(images, labels), "") for each in found}
    raise ValueError(f"it has no array x_train of images; its arrays: {', '.join(names)}")


def _npz_split(path: Path, name: str, labels_name: str, arrays: Mapping[str, NDArray[Any]]) -> SourceSplit:
    where, labels = f"{path} {name}", arrays.get(labels_name)
    shape, dtype = _header(path, name)
    color = len(shape) == 4 and shape[3] in (3, 4) and dtype == np.uint8
    gray = len(shape) == 3 or (len(shape) == 4 and shape[3] == 1)
    allowed = f"[n H W] of uint8 or uint16, [n H W 3|4] of uint8, up to {MAX_PIXELS:,} pixels"
    if dtype not in (np.uint8, np.uint16) or not (gray or color) or not 0 < prod(shape[1:3]) <= MAX_PIXELS:
        raise ValueError(f"{name} is {dtype} {list(shape)}; allowed: {allowed}")
    if labels is not None and labels.size != shape[0]:
        raise ValueError(f"{labels_name} is {labels.dtype} {list(labels.shape)}; allowed: [{shape[0]}]")

    @cache
    def pixels() -> NDArray[Any]:
        with naming(where), np.load(path, allow_pickle=False) as loaded:
            images: NDArray[Any] = loaded[name]
            return images[..., 0] if shape[3:] == (1,) else images

    found = None if labels is None else labels.flatten()
    if found is not None and found.dtype.kind == "S":
        found = np.char.decode(found, "utf-8")
    read_range = lambda start, stop: iter(pixels()[start:stop])  # noqa: E731
    return SourceSplit(shape[0], read_range, lambda i: f"{where} row {i}", found)


def _header(path: Path, name: str) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Return the shape and the type of an array, which is not read."""
    with zipfile.ZipFile(path) as archive, archive.open(f"{name}.npy") as file:
        is_first = npy_format.read_magic(file) == (1, 0)
        read = npy_format.read_array_header_1_0 if is_first else npy_format.read_array_header_2_0
        shape, _, dtype = read(file)
        return shape, dtype


READERS["npz"] = Reader(lambda path: path.suffix.lower() == ".npz", read_npz)
