"""OpenAI's pre-tokenized images: `.npy` files of palette indices, and the palette beside them.

Image GPT's `download.py` writes `imagenet_trX.npy`, `_trY`, `_vaX`, `_vaY`, `_teX`, `_teY`, likewise for
`cifar10`, and `kmeans_centers.npy`.
"""

from collections.abc import Iterator
from math import isqrt
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isopix.data.sources.base import Source, SourceSplit, SplitName, labels_or_none, with_class_names
from isopix.data.sources.digits import Canvas
from isopix.storage.arrays import is_numeric, open_array, read_arrays
from isopix.storage.hashing import hash_tree

TRAIN = "_trX.npy"  # how the one file that is required ends
PARTS: dict[SplitName, str] = {"train": "tr", "validation": "va", "test": "te"}
PALETTES = ("kmeans_centers.npy", "palette.npz")  # OpenAI's, with colors in [-1, 1], and isopix's

ColorTable = NDArray[np.uint8]  # [K 3]


def is_coded(folder: Path) -> bool:
    """Return whether a folder has files of codes."""
    return any(folder.glob(f"*{TRAIN}"))


def read_codes(path: Path, canvas: Canvas) -> Source:
    """Return the images that the codes stand for, of a folder with one dataset, or of the dataset of a
    `*_trX.npy` file.

    Images are integers [n H*W] or [n H W], squares of the canvas's size; labels are integers [n] or one-hot
    [n C]. Each code becomes its color rounded to bytes, which a palette of these colors encodes as the same
    code, but for colors that are nearly equal (`Palette.notes` counts them). Raises ValueError for other
    content, other sizes and codes without a color.
    """
    first = _train_file(path)
    prefix = first.name.removesuffix(TRAIN)
    files = {
        f"{part}{axis}": file
        for part in PARTS.values()
        for axis in "XY"
        if (file := first.with_name(f"{prefix}_{part}{axis}.npy")).is_file()
    }
    palette = palette_beside(path)
    if palette is None:
        raise ValueError(
            f"{first.parent} has no {' or '.join(PALETTES)}, the palette that the codes of {first.name} index"
        )
    table = _color_table(palette)
    splits = {name: _split(files, part, table, canvas) for name, part in PARTS.items() if f"{part}X" in files}
    content_hash = hash_tree({**files, "palette": palette})
    return with_class_names(Source(prefix, splits, (), content_hash))


def palette_beside(path: Path) -> Path | None:
    """Return the palette in the folder of files of codes, OpenAI's before isopix's; None if there is none."""
    folder = path if path.is_dir() else path.parent
    return next((folder / name for name in PALETTES if (folder / name).is_file()), None)


def _train_file(path: Path) -> Path:
    if path.is_file():
        if not path.name.endswith(TRAIN):
            raise ValueError(f"{path} is not a dataset; of files of codes give the one named *{TRAIN}")
        return path
    found = sorted(path.glob(f"*{TRAIN}"))
    if len(found) > 1:
        names = ", ".join(file.name for file in found)
        raise ValueError(f"folder {path} has codes of {len(found)} datasets; give one file of {names}")
    return found[0]


def _color_table(path: Path) -> ColorTable:
    """Return the colors rounded to bytes. Raises ValueError for anything but colors [K 3] of their range."""
    try:
        arrays = read_arrays(path)
    except ValueError as error:
        raise ValueError(f"palette file {path} cannot be read: {error}") from error
    colors = arrays.get("colors", arrays.get(""))
    if colors is None or colors.ndim != 2 or colors.shape[1] != 3 or not is_numeric(colors):
        raise ValueError(f"palette file {path} has no array of colors [K 3]")
    levels = colors.astype(np.float64) if "colors" in arrays else (colors.astype(np.float64) + 1) * 127.5
    if not (levels.min() >= 0 and levels.max() <= 255):  # also true of NaN
        raise ValueError(f"palette file {path} has colors outside the range of bytes")
    return np.rint(levels).astype(np.uint8)


def _split(files: dict[str, Path], part: str, table: ColorTable, canvas: Canvas) -> SourceSplit:
    file = files[f"{part}X"]
    codes = _numbers(file)
    side = isqrt(int(np.prod(codes.shape[1:])))
    if (
        codes.dtype.kind not in "iu"
        or not codes.size
        or codes.shape[1:] not in ((side * side,), (side, side))
    ):
        raise ValueError(
            f"{file} is {codes.dtype} {list(codes.shape)}; allowed: integers [n H*W] of square images"
        )
    if (side, side) != (canvas.rows, canvas.cols):
        raise ValueError(
            f"{file} has codes of images of {side} x {side} pixels; data.rows {canvas.rows} and data.cols "
            f"{canvas.cols} must be {side}"
        )
    low, high = int(codes.min()), int(codes.max())
    if low < 0 or high >= len(table):
        raise ValueError(f"{file} has codes from {low} to {high}; the palette has {len(table)} colors")

    def read_range(start: int, stop: int) -> Iterator[ColorTable]:
        return (table[row].reshape(side, side, 3) for row in codes[start:stop])

    labels = _labels(files[f"{part}Y"], len(codes)) if f"{part}Y" in files else None
    return SourceSplit(len(codes), read_range, lambda i: f"{file} row {i}", labels)


def _labels(file: Path, count: int) -> NDArray[np.int64] | None:
    """Return class indices, of integers [n] or one-hot rows [n C]."""
    values = _numbers(file)
    if len(values) != count:
        raise ValueError(f"{file} has {len(values)} labels for {count} images")
    if values.ndim == 2 and values.shape[1] > 1:
        if not (np.isin(values, (0, 1)).all() and (values.sum(1) == 1).all()):
            raise ValueError(f"{file} has rows that are not one-hot")
        return values.argmax(1).astype(np.int64)
    if values.shape not in ((count,), (count, 1)) or values.dtype.kind not in "iu" or values.min() < 0:
        raise ValueError(
            f"{file} is {values.dtype} {list(values.shape)}; allowed: classes [n] or one-hot [n C]"
        )
    return labels_or_none(values.reshape(-1), str(file))


def _numbers(file: Path) -> NDArray[Any]:
    """Return the array of a .npy file, memory-mapped. Raises ValueError for anything but numbers."""
    try:
        values = open_array(file)
    except ValueError as error:
        raise ValueError(f"dataset file {file} cannot be read: {error}") from None
    if not is_numeric(values) or not values.ndim or not len(values):
        raise ValueError(f"{file} is {values.dtype} {list(values.shape)}; allowed: numbers, at least one row")
    return values
