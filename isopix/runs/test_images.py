"""Which test images a fine-tuned run classifies correctly, so that runs are compared image by image."""

import io
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool
from torch import Tensor

from isopix.core.types import Groups
from isopix.data.splits import Hashes
from isopix.storage.atomic import replace_file
from isopix.storage.npy import read_arrays
from isopix.storage.run_folder import RunFolder


class ClassifiedImages(NamedTuple):
    """Hashes of the content of the test images, whether each is classified correctly, and the original that
    it was made from; `groups` is None for independent images.
    """

    hashes: Hashes
    correct: Bool[Tensor, " _"]
    groups: Groups | None = None


def save_test_images(folder: RunFolder, images: ClassifiedImages) -> None:
    """Write them into a run folder."""
    data = io.BytesIO()
    arrays = {name: each.cpu().numpy() for name, each in images._asdict().items() if each is not None}
    np.savez_compressed(data, **arrays)
    replace_file(folder.test_images, data.getvalue())


def load_test_images(path: Path) -> ClassifiedImages | None:
    """Return those of a run folder; None if it has none. Raises ValueError for a damaged file.

    A file of an earlier version has no groups: its images are taken for independent.
    """
    file = RunFolder(path).test_images
    if not file.is_file():
        return None
    try:
        arrays = read_arrays(file)
        hashes, correct = arrays["hashes"].astype(np.int64), arrays["correct"].astype(bool)
        groups = arrays["groups"].astype(np.int64) if "groups" in arrays else None
        if {len(each) for each in arrays.values()} != {len(hashes)}:
            raise ValueError("its arrays have different lengths")
    except (KeyError, ValueError) as error:
        raise ValueError(f"{file} is damaged: {error}") from None
    return ClassifiedImages(
        torch.from_numpy(hashes),
        torch.from_numpy(correct),
        None if groups is None else torch.from_numpy(groups),
    )
