"""The images that a run was trained on, by hashes of their content: none of them is a test image."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from isopix.data.dataset import ImageDataset
from isopix.data.splits import Hashes
from isopix.storage.atomic import replace_file
from isopix.storage.npy import npy_bytes, read_arrays
from isopix.storage.run_folder import RunFolder


def seen_images(data: ImageDataset, earlier: Hashes | None = None) -> Hashes | None:
    """Return the sorted hashes of the training images and of those `earlier`; None if they have none."""
    found = [each for each in (data.train.hashes, earlier) if each is not None]
    return torch.from_numpy(np.unique(torch.cat(found).numpy())) if found else None


def save_seen(folder: RunFolder, seen: Hashes | None) -> None:
    """Write the hashes into a run folder."""
    if seen is not None:
        replace_file(folder.training_images, npy_bytes(seen.numpy()))


def load_seen(path: Path) -> Hashes | None:
    """Return the hashes of a run folder, or of the one that a checkpoint is in; None if it has none.

    Raises ValueError for a damaged file.
    """
    for folder in (path, path.parent, path.parent.parent):
        file = RunFolder(folder).training_images
        if file.is_file():
            try:
                return torch.from_numpy(read_arrays(file)[""].astype(np.int64))
            except (KeyError, ValueError) as error:
                raise ValueError(f"{file} is damaged: {error}") from None
    return None


def leave_out_seen(data: ImageDataset, seen: Hashes | None) -> tuple[ImageDataset, str]:
    """Return the data without the test images that a run was trained on, and a note that counts them.

    The note is empty if there are none. Raises ValueError if no test image would be left.
    """
    hashes = data.test.hashes
    if seen is None or hashes is None or not len(hashes):
        return data, ""
    unseen = torch.from_numpy(np.isin(hashes.numpy(), seen.numpy(), invert=True))
    count = int((~unseen).sum())
    if not count:
        return data, ""
    if count == len(hashes):
        raise ValueError(f"the run was trained on all {count:,} test images of dataset '{data.name}'")
    note = (
        f"{count:,} of {len(hashes):,} test images of dataset '{data.name}' are left out: the run was "
        "trained on them"
    )
    test = data.test.select(unseen.nonzero()[:, 0])
    return replace(data, test=test, seen_test_images=data.seen_test_images + count), note
