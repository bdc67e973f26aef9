"""NumPy archives of images and labels."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isopix.data.sources.base import SPLIT_NAMES, Source, array_split, labels_or_none, with_class_names
from isopix.storage.hashing import hash_files
from isopix.storage.npy import Arrays, read_arrays


def read_npz(path: Path) -> Source:
    """Read the arrays x_train, y_train, likewise _validation and _test, and class_names; x_train is required.

    Images are uint8 [n H W], [n H W 1], [n H W 3] or [n H W 4], or uint16 [n H W]; labels are integers [n].
    Raises ValueError for any other content, and what `read_arrays` raises.
    """
    try:
        arrays = read_arrays(path)
    except ValueError as error:
        raise ValueError(f"file {path} cannot be read: {error}") from error
    if "x_train" not in arrays:
        raise ValueError(f"file {path} has no array x_train; its arrays: {', '.join(sorted(arrays))}")
    splits = {
        name: array_split(
            _pixels(arrays, f"x_{name}", path), _labels(arrays, f"y_{name}", path), f"{path} x_{name}"
        )
        for name in SPLIT_NAMES
        if f"x_{name}" in arrays
    }
    names = np.atleast_1d(arrays.get("class_names", np.array([]))).astype(str)
    source = Source(path.stem, splits, (), hash_files({path.name: path})[path.name])
    return with_class_names(source, names.flatten().tolist())


def _pixels(arrays: Arrays, name: str, path: Path) -> NDArray[Any]:
    pixels = arrays[name]
    if pixels.ndim == 4 and pixels.shape[-1] == 1:
        pixels = pixels[..., 0]
    if pixels.dtype not in (np.uint8, np.uint16):
        raise ValueError(f"{name} of {path} is {pixels.dtype}; allowed: uint8, uint16")
    gray = pixels.ndim == 3
    color = pixels.ndim == 4 and pixels.shape[-1] in (3, 4) and pixels.dtype == np.uint8
    if not (gray or color) or 0 in pixels.shape:
        raise ValueError(
            f"{name} of {path} has shape {list(pixels.shape)}; allowed: [n H W], and [n H W 3|4] of uint8"
        )
    return pixels


def _labels(arrays: Arrays, name: str, path: Path) -> NDArray[np.int64] | None:
    if name not in arrays:
        return None
    labels = arrays[name]
    if labels.shape[1:] not in ((), (1,)) or labels.ndim == 0 or labels.dtype.kind not in "iu":
        raise ValueError(f"{name} of {path} is {labels.dtype} {list(labels.shape)}; allowed: integers [n]")
    return labels_or_none(labels.flatten(), f"{name} of {path}")
