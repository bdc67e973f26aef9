"""Datasets on the Hugging Face Hub, through the optional `datasets` library and its own disk cache."""

from collections.abc import Mapping
from functools import partial
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from isopix.core.text import error_line
from isopix.data.augment import AugmentationSpec, PadCropFlip
from isopix.data.formats import local_formats
from isopix.data.sources.base import (
    DATASETS,
    DEFAULT_HOLDOUT,
    NamedDataset,
    ReadOptions,
    Source,
    SplitName,
    with_class_names,
)
from isopix.data.sources.tables import open_arrow, splits_of
from isopix.storage.hashing import hash_tree


class HubDataset(NamedTuple):
    """The repository of a dataset, and the names of its splits."""

    repository: str
    splits: Mapping[SplitName, str]
    holdout: float = DEFAULT_HOLDOUT
    augment: AugmentationSpec | None = None


# ImageNet's test labels are not public, so its validation set is the test set, as in the papers.
HUB_DATASETS: dict[str, HubDataset] = {
    "cifar10": HubDataset("uoft-cs/cifar10", {"train": "train", "test": "test"}, augment=PadCropFlip()),
    "cifar100": HubDataset("uoft-cs/cifar100", {"train": "train", "test": "test"}, augment=PadCropFlip()),
    "stl10": HubDataset("tanganke/stl10", {"train": "train", "test": "test"}),
    "imagenet-1k": HubDataset("ILSVRC/imagenet-1k", {"train": "train", "test": "validation"}, holdout=0.04),
    "tiny-imagenet": HubDataset("zh-plus/tiny-imagenet", {"train": "train", "test": "valid"}),
}


def read_hub(name: str, options: ReadOptions) -> Source:
    """Return a dataset of the Hugging Face Hub by its short name, which is kept in the cache of `datasets`.

    Raises RuntimeError without the library or a reachable Hub.
    """
    hub = HUB_DATASETS[name]
    files = {split: _download(name, hub.repository, word) for split, word in hub.splits.items()}
    splits, classes = splits_of({split: list(map(open_arrow, paths)) for split, paths in files.items()})
    content_hash = hash_tree({f"{i} {file.name}": file for i, file in enumerate(chain(*files.values()))})
    return with_class_names(Source(name, splits, (), content_hash, hub.holdout, fixed=True), classes)


def _download(name: str, repository: str, split: str) -> list[Path]:
    """Return the Arrow files of a split in the cache of `datasets`."""
    try:
        import datasets  # noqa: PLC0415  # the optional extra `hub`
    except ImportError:
        raise RuntimeError(
            f"dataset '{name}' is on the Hugging Face Hub and needs the network and "
            f"pip install 'isopix[hub]'; or give {local_formats()}"
        ) from None
    try:
        loaded = datasets.load_dataset(repository, split=split, keep_in_memory=False)
    except Exception as error:  # connection, proxy, log-in and cache errors of four libraries
        raise RuntimeError(
            f"dataset '{name}' cannot be downloaded from the Hugging Face Hub ({error_line(error)}); "
            f"give {local_formats()}, or copy a filled Hub cache and set HF_HUB_OFFLINE=1"
        ) from error
    return [Path(file["filename"]) for file in loaded.cache_files]


for each, dataset in HUB_DATASETS.items():
    DATASETS[each] = NamedDataset(partial(read_hub, each), dataset.augment)
