"""A few images of the data of a run, and the number of images of each class, for its report."""

import numpy as np
import torch

from isopix.data.dataset import ImageDataset
from isopix.storage.arrays import npz_bytes
from isopix.storage.atomic import replace_file
from isopix.storage.run_folder import RunFolder

MAX_IMAGES = 60
MAX_BYTES = 2**21  # of their pixels: 14 images of 224x224
SPLITS = ("train", "validation", "test")


def save_data_sample(folder: RunFolder, data: ImageDataset) -> None:
    """Save training images, of all classes alike, in the order of their classes, with their labels (-1 for
    none), the names of the classes, and the number of images of each class and split [classes 3].
    """
    count = max(1, min(MAX_IMAGES, MAX_BYTES // data.train.images.shape[1:].numel()))
    sample = data.train.balanced_sample(count)
    labels = torch.full((len(sample),), -1) if sample.labels is None else sample.labels
    order = labels.argsort(stable=True)
    splits = [getattr(data, name).labels for name in SPLITS]
    none = torch.zeros(len(data.classes), dtype=torch.int64)
    counts = [none if each is None else torch.bincount(each, minlength=len(data.classes)) for each in splits]
    arrays = {
        "images": sample.images[:][order].cpu().numpy(),
        "labels": labels[order].numpy(),
        "classes": np.array(data.classes, dtype=str),
        "counts": torch.stack(counts, 1).numpy(),
    }
    replace_file(folder.data_sample, npz_bytes(arrays))
