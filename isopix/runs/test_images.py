"""Which test images a fine-tuned run classifies correctly, so that runs are compared image by image."""

import io
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool
from torch import Tensor

from isopix.data.splits import Hashes
from isopix.storage.atomic import replace_file
from isopix.storage.npy import read_arrays
from isopix.storage.run_folder import RunFolder


class ClassifiedImages(NamedTuple):
    """Hashes of the content of the test images, and whether each is classified correctly."""

    hashes: Hashes
    correct: Bool[Tensor, " _"]


def save_test_images(folder: RunFolder, hashes: Hashes, correct: Bool[Tensor, " _"]) -> None:
    """Write both into a run folder."""
    data = io.BytesIO()
    np.savez_compressed(data, hashes=hashes.numpy(), correct=correct.numpy())
    replace_file(folder.test_images, data.getvalue())


def load_test_images(path: Path) -> ClassifiedImages | None:
    """Return those of a run folder; None if it has none. Raises ValueError for a damaged file."""
    file = RunFolder(path).test_images
    if not file.is_file():
        return None
    try:
        arrays = read_arrays(file)
        hashes, correct = arrays["hashes"].astype(np.int64), arrays["correct"].astype(bool)
    except (KeyError, ValueError) as error:
        raise ValueError(f"{file} is damaged: {error}") from None
    return ClassifiedImages(torch.from_numpy(hashes), torch.from_numpy(correct))
