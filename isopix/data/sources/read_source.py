"""Open a source: scikit-learn's digits, a dataset by its name, or a file or folder by its path."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

from isopix.data.sources.base import Source, SourceSplit, SplitName, array_split, class_names
from isopix.data.sources.folder import read_folder
from isopix.data.sources.hub import HUB_DATASETS, LOCAL_SOURCES, read_hub
from isopix.data.sources.npz import read_npz
from isopix.data.sources.parquet import parquet_files, read_parquet
from isopix.storage.hashing import hash_bytes


def read_digits() -> Source:
    """Return the 1,797 scans of 8x8 pixels; gray level v of 0..16 becomes round(v * 255 / 16)."""
    digits = load_digits()
    pixels = np.round(digits.images * 255 / 16).astype(np.uint8)
    labels = np.asarray(digits.target, dtype=np.int64)
    splits: dict[SplitName, SourceSplit] = {"train": array_split(pixels, labels, "digits")}
    content_hash = hash_bytes(pixels.tobytes(), labels.tobytes())
    return Source("digits", splits, class_names((), splits), content_hash)


DATASET_NAMES = ("digits", *HUB_DATASETS)


def read_source(source: str) -> Source:
    """Return the source with that name or at that path; a name takes precedence over a folder of that name.

    Raises ValueError if it is neither, and what the readers raise.
    """
    return find_reader(source)()


def find_reader(source: str) -> Callable[[], Source]:
    """Return what reads the source with that name or at that path; nothing is read before it is called.

    Raises ValueError if it is neither.
    """
    if source == "digits":
        return read_digits
    if source in HUB_DATASETS:
        return partial(read_hub, source)
    path = Path(source).expanduser()
    if (path / "recipe.json").is_file():
        raise ValueError(f"folder {path} is a run folder; as a dataset give {LOCAL_SOURCES}")
    if path.is_dir():
        return partial(read_parquet if parquet_files(path) else read_folder, path)
    alternatives = f"give {LOCAL_SOURCES}, or one of: {', '.join(DATASET_NAMES)}"
    if not path.exists():
        raise ValueError(f"no file or folder '{source}' exists, and no dataset has that name; {alternatives}")
    readers = {".npz": read_npz, ".parquet": read_parquet}
    if path.suffix.lower() not in readers:
        raise ValueError(f"file {path} is not a dataset; {alternatives}")
    return partial(readers[path.suffix.lower()], path)
