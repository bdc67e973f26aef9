"""NumPy archives of images and labels."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isopix.data.decode import MAX_PIXELS
from isopix.data.sources.base import SPLIT_NAMES, Source, SourceSplit, labels_or_none, with_class_names
from isopix.storage.arrays import ArchivedArray, open_arrays
from isopix.storage.hashing import hash_files

Archive = Mapping[str, ArchivedArray]


def read_npz(path: Path) -> Source:
    """Read the arrays x_train, y_train, likewise _validation and _test, and class_names; x_train is required.

    Images are uint8 [n H W], [n H W 1], [n H W 3] or [n H W 4], or uint16 [n H W], of which one is in memory
    at a time; labels are integers [n]. Raises ValueError for any other content.
    """
    try:
        arrays = open_arrays(path)
    except ValueError as error:
        raise ValueError(f"dataset file {path} cannot be read: {error}") from error
    if "x_train" not in arrays:
        names = ", ".join(sorted(arrays)[:10])
        raise ValueError(f"dataset file {path} has no array x_train; its arrays: {names}")
    splits = {name: _split(arrays, name, path) for name in SPLIT_NAMES if f"x_{name}" in arrays}
    classes = np.atleast_1d(_read(arrays, "class_names", path)) if "class_names" in arrays else np.array([])
    source = Source(path.stem, splits, (), hash_files({path.name: path})[path.name])
    return with_class_names(source, classes.astype(str).flatten().tolist())


def _split(arrays: Archive, name: str, path: Path) -> SourceSplit:
    array, where = arrays[f"x_{name}"], f"{path} x_{name}"
    _check_pixels(array, f"x_{name} of {path}")
    labels = _labels(arrays, f"y_{name}", path)
    if labels is not None and len(labels) != array.shape[0]:
        raise ValueError(f"{where} has {array.shape[0]} images but {len(labels)} labels")

    def read_range(start: int, stop: int) -> Iterator[NDArray[Any]]:
        try:
            for row in array.rows(start, stop):
                yield row[..., 0] if row.shape[2:] == (1,) else row
        except ValueError as error:
            raise ValueError(f"dataset file {path} cannot be read: {error}") from error

    return SourceSplit(array.shape[0], read_range, lambda i: f"{where} row {i}", labels)


def _check_pixels(array: ArchivedArray, where: str) -> None:
    shape, dtype = array.shape, array.dtype
    if dtype not in (np.uint8, np.uint16):
        raise ValueError(f"{where} is {dtype}; allowed: uint8, uint16")
    gray = len(shape) == 3 or (len(shape) == 4 and shape[-1] == 1)
    color = len(shape) == 4 and shape[-1] in (3, 4) and dtype == np.uint8
    if not (gray or color) or 0 in shape:
        raise ValueError(f"{where} has shape {list(shape)}; allowed: [n H W], and [n H W 3|4] of uint8")
    if shape[1] * shape[2] > MAX_PIXELS:
        raise ValueError(
            f"{where} has images of {shape[1] * shape[2]:,} pixels, above the limit of {MAX_PIXELS:,}"
        )


def _labels(arrays: Archive, name: str, path: Path) -> NDArray[np.int64] | None:
    if name not in arrays:
        return None
    shape, dtype = arrays[name].shape, arrays[name].dtype
    if shape[1:] not in ((), (1,)) or not shape or dtype.kind not in "iu":
        raise ValueError(f"{name} of {path} is {dtype} {list(shape)}; allowed: integers [n]")
    return labels_or_none(_read(arrays, name, path).flatten(), f"{name} of {path}")


def _read(arrays: Archive, name: str, path: Path) -> NDArray[Any]:
    try:
        return arrays[name].read()
    except ValueError as error:
        raise ValueError(f"{name} of {path} cannot be read: {error}") from error
