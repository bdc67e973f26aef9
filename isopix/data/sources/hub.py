"""Data sets of the Hugging Face hub, through the optional `datasets` library and its own disk cache."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from isopix.data.sources.base import PAPER_HOLDOUT, Part, Source, SplitName, class_names, digest_tree
from isopix.data.sources.hf_columns import ROWS, Columns, find_columns, table_part


class HubSet(NamedTuple):
    """Where the hub keeps a data set, and which of its splits is which."""

    repository: str
    splits: Mapping[SplitName, str]
    holdout: float = PAPER_HOLDOUT


# ImageNet's test labels are not public, so its validation set is the test set, as in the papers.
HUB: dict[str, HubSet] = {
    "cifar10": HubSet("uoft-cs/cifar10", {"train": "train", "test": "test"}),
    "cifar100": HubSet("uoft-cs/cifar100", {"train": "train", "test": "test"}),
    "stl10": HubSet("tanganke/stl10", {"train": "train", "test": "test"}),
    "imagenet-1k": HubSet("ILSVRC/imagenet-1k", {"train": "train", "test": "validation"}, holdout=0.04),
    "tiny-imagenet": HubSet("zh-plus/tiny-imagenet", {"train": "train", "test": "valid"}),
}
WAYS_ROUND = "a folder of images, an .npz file, a Parquet file or folder"


def read_hub(name: str) -> Source:
    """A data set of the hub by its short name.

    Raises RuntimeError if the library is not installed or the hub cannot be reached; the line names the ways
    round it.
    """
    hub = HUB[name]
    splits = {split: _load_dataset(name, hub.repository, theirs) for split, theirs in hub.splits.items()}
    columns = find_columns(splits["train"].features.arrow_schema, f"data set '{name}'")
    parts = {split: _hub_part(dataset, columns, f"{name} {split}") for split, dataset in splits.items()}
    files = [Path(file["filename"]) for dataset in splits.values() for file in dataset.cache_files]
    digest = digest_tree({f"{i} {file.name}": file for i, file in enumerate(files)})
    return Source(name, parts, class_names(columns.names, parts), digest, hub.holdout)


def _load_dataset(name: str, repository: str, split: str) -> Any:
    try:
        import datasets  # noqa: PLC0415  # the optional extra `hub`
    except ImportError:
        raise RuntimeError(
            f"data set '{name}' comes from the Hugging Face hub and needs the network and "
            f"pip install 'isopix[hub]'; without them give {WAYS_ROUND}"
        ) from None
    try:
        return datasets.load_dataset(repository, split=split, keep_in_memory=False)
    except Exception as error:  # connection, proxy, log-in and cache errors of four libraries
        reason = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}".rstrip(": ")
        raise RuntimeError(
            f"data set '{name}' cannot be fetched from the Hugging Face hub: no network or no access "
            f"({reason}); give {WAYS_ROUND}, or fill the hub's cache elsewhere and set HF_HUB_OFFLINE=1"
        ) from error


def _hub_part(dataset: Any, columns: Columns, where: str) -> Part:
    table = dataset.with_format("arrow")
    count = len(dataset)

    def batches(column: str) -> Iterator[pa.Array]:
        for start in range(0, count, ROWS):
            yield from table[start : start + ROWS].column(column).chunks

    return table_part(count, batches, columns, lambda i: f"{where} row {i}")
