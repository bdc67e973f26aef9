"""Images by hashes of their content: those a run has seen, and test images that it classifies correctly."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool
from torch import Tensor

from isopix.core.files import regular
from isopix.core.stats import accuracy_interval
from isopix.core.text import count_of
from isopix.core.types import Groups
from isopix.data.copies import without_copies
from isopix.data.dataset import ImageDataset
from isopix.data.sources.base import SplitName
from isopix.data.splits import Hashes, Split
from isopix.storage.arrays import npy_bytes, npz_bytes, read_arrays
from isopix.storage.atomic import replace_file
from isopix.storage.provenance import sha256_of
from isopix.storage.run_folder import LABELED, SEEN, RunFolder

MAX_LIST = 2**32  # bytes of a list: 500 million images


def union(*hashes: Hashes | None) -> Hashes | None:
    """Return the sorted union of those that are not None; None if all are."""
    found = [each for each in hashes if each is not None]
    return torch.from_numpy(np.unique(torch.cat(found).numpy())) if found else None


def save_hashes(file: Path, hashes: Hashes | None) -> None:
    """Write hashes into a file of a run folder; nothing for None."""
    if hashes is not None:
        replace_file(file, npy_bytes(hashes.numpy()))


def list_hashes(run: RunFolder) -> dict[str, str]:
    """Return the SHA-256 of the lists of images of a run, by name."""
    return {name: sha256_of(run.path / name) for name in (SEEN, LABELED) if (run.path / name).is_file()}


def load_hashes(path: Path, name: str, files: Mapping[str, str]) -> Hashes | None:
    """Return the list SEEN or LABELED of a run or checkpoint folder; None if it has none.

    Raises ValueError if its SHA-256 is not that of `files`.
    """
    file = next((each / name for each in run_folders(path) if (each / name).is_file()), None)
    if file is None:
        return None
    if name in files and sha256_of(regular(file, MAX_LIST)) != files[name]:
        raise ValueError(
            f"{file} does not have the SHA-256 that the checkpoint records: changed; restore it, or delete it"
        )
    return torch.from_numpy(read_arrays(file, MAX_LIST)[""])


def run_folders(path: Path) -> tuple[Path, ...]:
    """Return where a run folder may be: at the path, or around the checkpoint at the path."""
    return path, path.parent, path.parent.parent


def leave_out_seen(
    data: ImageDataset, seen: Hashes | None, split: SplitName = "test", *, known: bool = True
) -> tuple[ImageDataset, str]:
    """Return the data without images of a split that are `seen`, and a note: how many, if all are `known`."""
    data = replace(data, seen_known=known and seen is not None)
    before: Split = getattr(data, split)
    kept, count = (before, 0) if seen is None else without_copies(before, seen)
    if not count:
        return data, ""
    images = f"{count_of(len(before), f'{split} image')} of dataset '{data.name}'"
    used = "used to train the run or to select its step"
    if count == len(before):
        raise ValueError(f"no images are left: all {images} were {used}")
    left_out = {**data.left_out, split: data.left_out.get(split, 0) + count}
    parts: dict[str, Any] = {split: kept, "left_out": left_out}
    return replace(data, **parts), f"{count:,} of {images} left out: {used}"


class ClassifiedImages(NamedTuple):
    """Hashes of test images, whether each is classified correctly, and the original that it was made from."""

    hashes: Hashes
    correct: Bool[Tensor, " _"]
    groups: Groups | None = None


def save_test_images(
    folder: RunFolder, test: Split, correct: Sequence[Tensor]
) -> dict[str, tuple[float, float]]:
    """Write which test images are classified correctly, by batches, and return the 95% `interval`."""
    if test.hashes is None or not correct:
        return {}
    found = ClassifiedImages(test.hashes, torch.cat(list(correct)).bool().cpu(), test.groups)
    arrays = {name: each.cpu().numpy() for name, each in found._asdict().items() if each is not None}
    replace_file(folder.test_images, npz_bytes(arrays))
    return {"interval": accuracy_interval(found.correct[None], test.groups)[0]}


def load_test_images(path: Path) -> ClassifiedImages | None:
    """Return those of a run folder; None if it has none. Raises ValueError for a damaged file."""
    file = RunFolder(path).test_images
    if not file.is_file():
        return None
    try:
        return ClassifiedImages(**{name: torch.from_numpy(each) for name, each in read_arrays(file).items()})
    except (TypeError, ValueError) as error:
        raise ValueError(f"{file} is damaged: {error}") from None
