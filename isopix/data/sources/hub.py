"""Datasets on the Hugging Face Hub, through the optional `datasets` library and its own disk cache."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from isopix.data.augment import AugmentationSpec, PadCropFlip
from isopix.data.sources.base import DEFAULT_HOLDOUT, Source, SourceSplit, SplitName, with_class_names
from isopix.data.sources.hf_columns import ROWS_PER_BATCH, ImageColumns, find_columns, table_split
from isopix.storage.hashing import hash_tree


class HubDataset(NamedTuple):
    """The repository of a dataset, the names of its splits, and how it is augmented in fine-tuning if the
    literature agrees on it.
    """

    repository: str
    splits: Mapping[SplitName, str]
    holdout: float = DEFAULT_HOLDOUT
    augment: AugmentationSpec | None = None


CIFAR_SPLITS: dict[SplitName, str] = {"train": "train", "test": "test"}
# ImageNet's test labels are not public, so its validation set is the test set, as in the papers.
HUB_DATASETS: dict[str, HubDataset] = {
    "cifar10": HubDataset("uoft-cs/cifar10", CIFAR_SPLITS, augment=PadCropFlip()),
    "cifar100": HubDataset("uoft-cs/cifar100", CIFAR_SPLITS, augment=PadCropFlip()),
    "stl10": HubDataset("tanganke/stl10", {"train": "train", "test": "test"}),
    "imagenet-1k": HubDataset("ILSVRC/imagenet-1k", {"train": "train", "test": "validation"}, holdout=0.04),
    "tiny-imagenet": HubDataset("zh-plus/tiny-imagenet", {"train": "train", "test": "valid"}),
}
LOCAL_SOURCES = "a folder of images, an image, an .npz file, OpenAI's .npy files, Parquet, tar or Arrow files"


def read_hub(name: str) -> Source:
    """Return a dataset by its short name. Raises RuntimeError without the library or a reachable Hub."""
    hub = HUB_DATASETS[name]
    loaded = {split: _load_split(name, hub.repository, hub_split) for split, hub_split in hub.splits.items()}
    columns = find_columns(loaded["train"].features.arrow_schema, f"dataset '{name}'")
    splits = {split: _hub_split(dataset, columns, f"{name} {split}") for split, dataset in loaded.items()}
    files = [Path(file["filename"]) for dataset in loaded.values() for file in dataset.cache_files]
    content_hash = hash_tree({f"{i} {file.name}": file for i, file in enumerate(files)})
    return with_class_names(Source(name, splits, (), content_hash, hub.holdout, fixed=True), columns.names)


def _load_split(name: str, repository: str, split: str) -> Any:
    try:
        import datasets  # noqa: PLC0415  # the optional extra `hub`
    except ImportError:
        raise RuntimeError(
            f"dataset '{name}' is on the Hugging Face Hub and needs the network and "
            f"pip install 'isopix[hub]'; or give {LOCAL_SOURCES}"
        ) from None
    try:
        return datasets.load_dataset(repository, split=split, keep_in_memory=False)
    except Exception as error:  # connection, proxy, log-in and cache errors of four libraries
        reason = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}".rstrip(": ")
        raise RuntimeError(
            f"dataset '{name}' cannot be downloaded from the Hugging Face Hub: no network or no access "
            f"({reason}); give {LOCAL_SOURCES}, or copy a filled Hub cache and set HF_HUB_OFFLINE=1"
        ) from error


def _hub_split(dataset: Any, columns: ImageColumns, where: str) -> SourceSplit:
    table = dataset.with_format("arrow")

    def batches(column: str, start: int, stop: int) -> Iterator[pa.Array]:
        for first in range(start, stop, ROWS_PER_BATCH):
            yield from table[first : min(stop, first + ROWS_PER_BATCH)].column(column).chunks

    return table_split(len(dataset), batches, columns, lambda i: f"{where} row {i}")
