"""The images that a run was trained on, read again from its dataset."""

from dataclasses import replace

import numpy as np
import torch

from isopix.data.dataset import DataConfig, load_dataset
from isopix.data.known_sources import require_known_source
from isopix.data.splits import Hashes, Split
from isopix.runs.load import LoadedRun


def training_images(loaded: LoadedRun) -> Split:
    """Return the training images of a run, each different one once, also if its dataset has more images now.

    Raises ValueError, with the reason, if not all of them can be had, and what `load_dataset` raises.
    """
    config = loaded.recipe.data
    if loaded.imported:
        raise ValueError("of an imported model they are not known")
    require_known_source(config.source)
    data = load_dataset(config)
    if data.fingerprint == loaded.state.data:
        return _distinct(data.train)
    return _listed(config, loaded.seen)


def _listed(config: DataConfig, seen: Hashes | None) -> Split:
    """Return the images of a dataset that has changed that are in the list of the run."""
    changed = f"dataset '{config.source}' has changed since the run was trained"
    if seen is None:
        raise ValueError(f"{changed}, which has no list of them")
    if config.crop == "random":
        raise ValueError(f"{changed}, and their random crops depend on all files")
    if config.labels_per_class is not None:
        raise ValueError(f"{changed}, and the choice of labels_per_class depends on all files")
    # A limit and `train_on_validation` depend on all images, the split of each image on its content alone.
    data = load_dataset(replace(config, limit=None, train_on_validation=False))
    train = data.train.concat(data.validation) if config.train_on_validation else data.train
    assert train.hashes is not None, "the cache has them"
    assert data.validation.hashes is not None, "the cache has them"
    in_list = np.isin(train.hashes.numpy(), seen.numpy())
    found = _distinct(train.select(torch.from_numpy(in_list.nonzero()[0])))
    # Validation images that selected the step are in the list and are no training images.
    others = 0 if config.train_on_validation else np.isin(seen.numpy(), data.validation.hashes.numpy()).sum()
    missing = len(seen) - len(found) - int(others)
    if missing or not len(found):
        raise ValueError(f"{changed}, and {missing:,} of its {len(seen):,} images are not there any more")
    return found


def _distinct(split: Split) -> Split:
    """Return the first image of each content."""
    assert split.hashes is not None, "the cache has them"
    first = np.unique(split.hashes.numpy(), return_index=True)[1]
    return split if len(first) == len(split) else split.select(torch.from_numpy(np.sort(first)))
