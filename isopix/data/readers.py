"""Readers: from the name of a data set, or the path of one, to its source."""

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from isopix.data.folder import read_folder
from isopix.data.hub import HUB, WAYS_ROUND, read_hub
from isopix.data.parquet import parquet_files, read_parquet
from isopix.data.source import (
    SPLITS,
    Part,
    Source,
    SplitName,
    class_names,
    digest_files,
    digest_of,
    labels_or_none,
)

NAMES = ("digits", *HUB)
MAX_UNPACKED = 64 * 2**30  # bytes of all arrays of an .npz file
MAX_RATIO = 200  # of them to the file's own: pictures of a few grey levels stay well below it
HARMLESS = 2**30  # bytes that any ratio may unpack to


def open_source(source: str) -> Source:
    """The source of that name or at that path; a name wins over a folder called the same.

    Raises ValueError if it is neither, and what the readers raise.
    """
    if source == "digits":
        return read_digits()
    if source in HUB:
        return read_hub(source)
    path = Path(source).expanduser()
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
    Nothing in the file is executed, and nothing is unpacked if all of it would be above 64 GiB, or above both
    1 GiB and 200 times the file. Raises ValueError then, and for any other content.
    """
    try:
        unpacked, allowed = _unpacked_bytes(path), _allowed_bytes(path)
        if unpacked > allowed:
            raise ValueError(f"it unpacks to {unpacked:,} bytes, above the limit of {allowed:,}")
        with path.open("rb") as file, np.load(file, allow_pickle=False) as members:
            arrays = {name: members[name] for name in members.files}
    except (OSError, ValueError, EOFError, MemoryError, zipfile.BadZipFile) as error:
        raise ValueError(f"file {path} cannot be read: {' '.join(str(error).split())}") from error
    if "x_train" not in arrays:
        raise ValueError(f"file {path} has no array x_train; its arrays: {', '.join(sorted(arrays))}")
    parts = {
        name: _array_part(
            _pixels(arrays, f"x_{name}", path), _labels(arrays, f"y_{name}", path), f"{path} x_{name}"
        )
        for name in SPLITS
        if f"x_{name}" in arrays
    }
    classes = class_names(arrays.get("class_names", np.array([])).tolist(), parts)
    return Source(path.stem, parts, classes, digest_files({path.name: path})[path.name])


def _unpacked_bytes(path: Path) -> int:
    """As the archive's directory says; what a member has beyond that is never read."""
    with zipfile.ZipFile(path) as archive:
        return sum(member.file_size for member in archive.infolist())


def _allowed_bytes(path: Path) -> int:
    return min(MAX_UNPACKED, max(HARMLESS, MAX_RATIO * path.stat().st_size))


def _array_part(pixels: NDArray[Any], labels: NDArray[np.int64] | None, where: str) -> Part:
    if labels is not None and len(labels) != len(pixels):
        raise ValueError(f"{where} has {len(pixels)} images but {len(labels)} labels")
    return Part(len(pixels), lambda: iter(pixels), lambda i: f"{where} row {i}", labels)


def _pixels(arrays: dict[str, NDArray[Any]], name: str, path: Path) -> NDArray[Any]:
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


def _labels(arrays: dict[str, NDArray[Any]], name: str, path: Path) -> NDArray[np.int64] | None:
    if name not in arrays:
        return None
    labels = arrays[name].reshape(len(arrays[name]), -1)
    if labels.shape[1] != 1 or labels.dtype.kind not in "iu":
        raise ValueError(
            f"{name} of {path} is {labels.dtype} {list(arrays[name].shape)}; allowed: integers [n]"
        )
    return labels_or_none(labels[:, 0].tolist(), f"{name} of {path}")
