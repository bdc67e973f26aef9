"""Images that are given as arrays: NumPy archives, and OpenAI's palette indices."""

import zipfile
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from math import isqrt, prod
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
    DATASETS,
    READERS,
    SPLIT_NAMES,
    Reader,
    Source,
    SourceSplit,
    SplitName,
    joined,
    with_class_names,
)
from isopix.data.sources.split_names import by_split, split_of, words_of
from isopix.storage.arrays import read_arrays
from isopix.storage.cache import file_index
from isopix.storage.provenance import hash_files, hash_tree

CLASS_NAMES = "class_names"  # an array of an .npz file
TRAIN = "_trX.npy"  # how OpenAI's one file that is required ends
PARTS: dict[SplitName, str] = {"train": "tr", "validation": "va", "test": "te"}
LABELS = {"x": "y", "images": "labels"}  # the word in the name of an array of labels, by that of images
PALETTES = ("kmeans_centers.npy", "palette.npz")  # OpenAI's, with colors in [-1, 1], and isopix's

ColorTable = NDArray[np.uint8]  # [K 3]


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
    notes = (f"arrays of {path} that are not read: {unread}",) if unread else ()
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


def read_codes(path: Path, config: DataConfig) -> Source:
    """Return the images that palette indices stand for, as Image GPT's `download.py` writes them: of a folder
    with one dataset, `imagenet_trX.npy`, `_trY`, `_vaX`, `_vaY`, `_teX`, `_teY`, or of a `*_trX.npy` file.

    Codes are integers [n H*W] or [n H W]; labels are integers [n] or one-hot [n C].
    """
    found = [path] if path.is_file() else sorted(path.glob(f"*{TRAIN}"))
    first = found[0]
    if len(found) > 1 or not first.name.endswith(TRAIN):
        raise ValueError(f"{path} is not a dataset; give one file named *{TRAIN}, or an .npz file")
    prefix, palette = first.name.removesuffix(TRAIN), _palette_beside(path)
    if palette is None:
        raise ValueError(f"{first.parent} has no {' or '.join(PALETTES)}, the palette of {first.name}")
    files, splits, table = dict[str, Path](), dict[SplitName, SourceSplit](), _color_table(palette)
    for name, part in PARTS.items():
        pair = [first.with_name(f"{prefix}_{part}{axis}.npy") for axis in "XY"]
        files |= {f"{part}{axis}": file for axis, file in zip("XY", pair, strict=True) if file.is_file()}
        if f"{part}X" in files:
            splits[name] = _codes_split(files[f"{part}X"], files.get(f"{part}Y"), table, config)
    content_hash = hash_tree({**files, "palette": palette}, file_index())
    return with_class_names(Source(prefix, splits, (), content_hash))


def palette_of(source: str) -> Path | None:
    """Return the palette that the images of a source index, if they are given as codes."""
    path = Path(source).expanduser()
    return _palette_beside(path) if source not in DATASETS and _is_coded(path) else None


def _is_coded(path: Path) -> bool:
    return any(path.glob(f"*{TRAIN}")) if path.is_dir() else path.name.endswith(TRAIN)


def _palette_beside(path: Path) -> Path | None:
    folder = path if path.is_dir() else path.parent
    return next((folder / name for name in PALETTES if (folder / name).is_file()), None)


def _color_table(path: Path) -> ColorTable:
    arrays = read_arrays(path)
    with naming(str(path)):
        colors = arrays["" if "" in arrays else "colors"].astype(np.float64)
        if "" in arrays:
            colors = (colors + 1) * 127.5
        if colors.ndim != 2 or colors.shape[1] != 3 or not (colors.min() >= 0 and colors.max() <= 255):
            raise ValueError("it has no colors [K 3] in the range of bytes")
    return np.rint(colors).astype(np.uint8)


def _codes_split(file: Path, labels: Path | None, table: ColorTable, config: DataConfig) -> SourceSplit:
    codes = _numbers(file)
    side, dtype = isqrt(prod(codes.shape[1:])), codes.dtype
    if dtype.kind not in "iu" or not codes.size or codes.shape[1:] not in ((side * side,), (side, side)):
        raise ValueError(f"{file} is {dtype} {list(codes.shape)}; allowed: integers [n H*W] of square images")
    if (side, side) != (config.rows, config.cols):
        given = f"data.rows {config.rows} and data.cols {config.cols}"
        raise ValueError(f"{file} has codes of images of {side} x {side} pixels; {given} must be {side}")
    low, high = int(codes.min()), int(codes.max())
    if low < 0 or high >= len(table):
        raise ValueError(f"{file} has codes from {low} to {high}; the palette has {len(table)} colors")

    def read_range(start: int, stop: int) -> Iterator[ColorTable]:
        return (table[row].reshape(side, side, 3) for row in codes[start:stop])

    found = None if labels is None else _code_labels(labels, len(codes))
    return SourceSplit(len(codes), read_range, lambda i: f"{file} row {i}", found)


def _code_labels(file: Path, count: int) -> NDArray[np.integer[Any]]:
    values = _numbers(file)
    if len(values) == count and values.ndim == 2 and values.shape[1] > 1:
        if np.isin(values, (0, 1)).all() and (values.sum(1) == 1).all():
            return values.argmax(1)
    elif values.size == count and values.dtype.kind in "iu":
        return values.reshape(-1)
    allowed = f"classes [{count}] or one-hot [{count} C]"
    raise ValueError(f"{file} is {values.dtype} {list(values.shape)}; allowed: {allowed}")


def _numbers(file: Path) -> NDArray[Any]:
    with naming(f"dataset file {file}"):
        return np.asarray(np.load(regular(file), mmap_mode="r", allow_pickle=False))


READERS["npz"] = Reader(lambda path: path.suffix.lower() == ".npz", read_npz)
READERS["codes"] = Reader(lambda path: _is_coded(path) or path.suffix.lower() == ".npy", read_codes)
