"""Readers: from the name of a data set, or the path of one, to its source."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from isopix.data.sources.base import (
    SPLITS,
    Part,
    Source,
    SplitName,
    class_names,
    digest_files,
    digest_of,
    labels_or_none,
)
from isopix.data.sources.folder import read_folder
from isopix.data.sources.hub import HUB, WAYS_ROUND, read_hub
from isopix.data.sources.parquet import parquet_files, read_parquet
from isopix.storage.npy import Arrays, read_arrays

NAMES = ("digits", *HUB)


def open_source(source: str) -> Source:
    """The source of that name or at that path; a name wins over a folder called the same.

    Raises ValueError if it is neither, and what the readers raise.
    """
    if source == "digits":
        return read_digits()
    if source in HUB:
        return read_hub(source)
    path = Path(source).expanduser()
    if (path / "recipe.json").is_file():
        raise ValueError(f"folder {path} is a run folder; as a data set give {WAYS_ROUND}")
    if path.is_dir():
        return read_parquet(path) if parquet_files(path) else read_folder(path)
    if not path.exists():
        looks_like_path = path.suffix or len(path.parts) > 1
        problem = f"path {path} does not exist" if looks_like_path else f"unknown data set '{source}'"
        raise ValueError(f"{problem}; give {WAYS_ROUND}, or one of: {', '.join(NAMES)}")
    readers = {".npz": read_npz, ".parquet": read_parquet}
    if path.suffix.lower() not in readers:
        raise ValueError(f"file {path} is no data set; give {WAYS_ROUND}, or one of: {', '.join(NAMES)}")
    return readers[path.suffix.lower()](path)


def read_digits() -> Source:
    """scikit-learn's bundled digits: 1,797 scans of 8x8, 17 grey levels v to round(v * 255 / 16)."""
    bundle = load_digits()
    pixels = np.round(bundle.images * 255 / 16).astype(np.uint8)
    labels = np.asarray(bundle.target, dtype=np.int64)
    parts: dict[SplitName, Part] = {"train": _array_part(pixels, labels, "digits")}
    return Source("digits", parts, class_names((), parts), digest_of(pixels.tobytes(), labels.tobytes()))


def read_npz(path: Path) -> Source:
    """Arrays x_train, y_train, likewise _validation and _test, and class_names; only x_train must be there.

    Images are uint8 [n H W], [n H W 1], [n H W 3] or [n H W 4], or uint16 [n H W]; labels are integers [n].
    Raises ValueError for any other content, and what `read_arrays` raises.
    """
    try:
        arrays = read_arrays(path)
    except ValueError as error:
        raise ValueError(f"file {path} cannot be read: {error}") from error
    if "x_train" not in arrays:
        raise ValueError(f"file {path} has no array x_train; its arrays: {', '.join(sorted(arrays))}")
    parts = {
        name: _array_part(
            _pixels(arrays, f"x_{name}", path), _labels(arrays, f"y_{name}", path), f"{path} x_{name}"
        )
        for name in SPLITS
        if f"x_{name}" in arrays
    }
    names = np.atleast_1d(arrays.get("class_names", np.array([]))).astype(str)
    classes = class_names(names.flatten().tolist(), parts)
    return Source(path.stem, parts, classes, digest_files({path.name: path})[path.name])


def _array_part(pixels: NDArray[Any], labels: NDArray[np.int64] | None, where: str) -> Part:
    if labels is not None and len(labels) != len(pixels):
        raise ValueError(f"{where} has {len(pixels)} images but {len(labels)} labels")
    return Part(len(pixels), lambda: iter(pixels), lambda i: f"{where} row {i}", labels)


def _pixels(arrays: Arrays, name: str, path: Path) -> NDArray[Any]:
    pixels = arrays[name]
    if pixels.ndim == 4 and pixels.shape[-1] == 1:
        pixels = pixels[..., 0]
    if pixels.dtype not in (np.uint8, np.uint16):
        raise ValueError(f"{name} of {path} is {pixels.dtype}; allowed: uint8, uint16")
    grey, colour = (
        pixels.ndim == 3,
        pixels.ndim == 4 and pixels.shape[-1] in (3, 4) and pixels.dtype == np.uint8,
    )
    if not (grey or colour) or 0 in pixels.shape:
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
    return labels_or_none(labels.flatten().tolist(), f"{name} of {path}")
