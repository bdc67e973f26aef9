"""The images that a run was trained on or selected by, as hashes: none of them is a test image."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from isopix.data.copies import without_copies
from isopix.data.dataset import ImageDataset
from isopix.data.sources.base import SplitName
from isopix.data.splits import Hashes, Split
from isopix.storage.arrays import npy_bytes, read_arrays
from isopix.storage.atomic import replace_file
from isopix.storage.hashing import sha256_of
from isopix.storage.run_folder import RunFolder


def seen_images(data: ImageDataset, earlier: Hashes | None, selecting: Split) -> Hashes | None:
    """Return the sorted hashes of the training images, of those `earlier`, and of the validation images that
    select something; None if they have none.
    """
    return union(data.train.hashes, earlier, selecting.hashes)


def union(*hashes: Hashes | None) -> Hashes | None:
    """Return the sorted union of those that are not None; None if all are."""
    found = [each for each in hashes if each is not None]
    return torch.from_numpy(np.unique(torch.cat(found).numpy())) if found else None


def save_hashes(file: Path, hashes: Hashes | None) -> None:
    """Write hashes into a file of a run folder; nothing for None."""
    if hashes is not None:
        replace_file(file, npy_bytes(hashes.numpy()))


def load_seen(path: Path, files: Mapping[str, str]) -> Hashes | None:
    """Return the hashes of a run folder, or of the one that a checkpoint is in; None if it has none.

    Raises ValueError for a file that is damaged or has another SHA-256 than `files`, of a checkpoint's state.
    """
    return _load([RunFolder(folder).training_images for folder in _folders(path)], files)


def load_labeled(path: Path, files: Mapping[str, str]) -> Hashes | None:
    """Return those of the labeled images, as `load_seen`."""
    return _load([RunFolder(folder).labeled_images for folder in _folders(path)], files)


def leave_out_seen(
    data: ImageDataset, seen: Hashes | None, split: SplitName = "test", *, known: bool = True
) -> tuple[ImageDataset, str]:
    """Return the data without the images of a split that are among those `seen`, and a note that counts them,
    empty if there are none; `known` says whether `seen` has all images, and is False for None.

    Raises ValueError if no image of the split would be left.
    """
    data = replace(data, seen_known=known and seen is not None)
    before: Split = getattr(data, split)
    kept, count = (before, 0) if seen is None else without_copies(before, seen)
    if not count:
        return data, ""
    images = f"{len(before):,} {split} images of dataset '{data.name}'"
    used = "used to train the run or to select its step"
    if count == len(before):
        only = f"the only {split} image of dataset '{data.name}' was {used}"
        raise ValueError(only if count == 1 else f"all {images} were {used}")
    left = "is left out: it was" if count == 1 else "are left out: they were"
    left_out = {**data.left_out, split: data.left_out.get(split, 0) + count}
    parts: dict[str, Any] = {split: kept, "left_out": left_out}
    return replace(data, **parts), f"{count:,} of {images} {left} {used}"


def _folders(path: Path) -> tuple[Path, ...]:
    return path, path.parent, path.parent.parent


def _load(places: Sequence[Path], files: Mapping[str, str]) -> Hashes | None:
    """Return the hashes of the first of the files that exists."""
    file = next((each for each in places if each.is_file()), None)
    if file is None:
        return None
    if file.name in files and sha256_of(file) != files[file.name]:
        raise ValueError(f"{file} does not have the SHA-256 that the checkpoint records: changed")
    try:
        return torch.from_numpy(read_arrays(file)[""].astype(np.int64))
    except (KeyError, ValueError) as error:
        raise ValueError(f"{file} is damaged: {error}") from None
