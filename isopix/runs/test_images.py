"""Which test images a fine-tuned run classifies correctly, so that runs are compared image by image."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool
from torch import Tensor

from isopix.core.stats import accuracy_interval
from isopix.core.types import Groups
from isopix.data.splits import Hashes, Split
from isopix.storage.arrays import read_arrays
from isopix.storage.atomic import replace_file
from isopix.storage.run_folder import RunFolder


class ClassifiedImages(NamedTuple):
    """Hashes of the content of the test images, whether each is classified correctly, and the original that
    it was made from; `groups` is None for independent images.
    """

    hashes: Hashes
    correct: Bool[Tensor, " _"]
    groups: Groups | None = None


def save_test_images(
    folder: RunFolder, test: Split, correct: Sequence[Tensor]
) -> dict[str, tuple[float, float]]:
    """Write which test images are classified correctly, given by batches as 1 or 0, into a run folder.

    Returns the 95 % `interval` of their accuracy. Images without hashes, and tasks without classes, have none
    and are not written.
    """
    if test.hashes is None or not correct:
        return {}
    found = ClassifiedImages(test.hashes, torch.cat(list(correct)).bool().cpu(), test.groups)
    arrays = {name: each.cpu().numpy() for name, each in found._asdict().items() if each is not None}
    data = io.BytesIO()
    np.savez_compressed(data, **arrays)
    replace_file(folder.test_images, data.getvalue())
    return {"interval": accuracy_interval(found.correct[None], test.groups)[0]}


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
