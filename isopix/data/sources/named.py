"""Datasets known by name: scikit-learn's digits, and those of the Hub through the library `datasets`."""

from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from isopix.core.random import generator
from isopix.core.text import error_line
from isopix.data.augment import NoAugmentation, PadCropFlip
from isopix.data.dataset import DataConfig
from isopix.data.formats import local_formats
from isopix.data.sources.base import (
    DATASETS,
    DEFAULT_HOLDOUT,
    NamedDataset,
    Source,
    SourceSplit,
    SplitName,
    with_class_names,
)
from isopix.data.sources.tables import open_arrow, splits_of
from isopix.storage.provenance import hash_bytes, hash_tree

SIDE = 8  # pixels of a digit
TEST, VALIDATION = 450, 150  # digits of translated-digits; the other 1,197 are for training


def read_digits(config: DataConfig) -> Source:
    """Return the 1,797 scans of 8x8 pixels; gray level v of 0..16 becomes round(v * 255 / 16)."""
    pixels, labels = _scans()
    splits: dict[SplitName, SourceSplit] = {"train": _array_split(pixels, labels, "digits")}
    content_hash = hash_bytes(pixels.tobytes(), labels.tobytes())
    return with_class_names(Source("digits", splits, (), content_hash, fixed=True))


def read_translated_digits(config: DataConfig) -> Source:
    """Return the digits at random places of a black canvas; a group is the placements of a digit."""
    rows, cols = config.rows, config.cols
    if min(rows, cols) < SIDE:
        raise ValueError(f"translated-digits has no images of {rows} x {cols} pixels; allowed: 8 x 8 or more")
    pixels, labels = _scans()
    order = torch.randperm(len(pixels), generator=generator(0, "translated-digits")).numpy()
    test, validation, train = np.split(order, [TEST, TEST + VALIDATION])
    members: dict[SplitName, NDArray[np.int64]] = {"train": train, "validation": validation, "test": test}
    splits, content = dict[SplitName, SourceSplit](), list[bytes]()
    for name, digits in members.items():
        times = config.placements if name == "train" else max(1, config.placements // 2)
        copies = np.tile(digits, times)
        images = _placed(pixels[copies], rows, cols, generator(0, f"placements.{name}"))
        splits[name] = _array_split(images, labels[copies], f"translated-digits {name}", copies)
        content += [images.tobytes(), labels[copies].tobytes(), copies.tobytes()]
    return with_class_names(Source("translated-digits", splits, (), hash_bytes(*content), fixed=True))


def _array_split(
    pixels: NDArray[np.uint8], labels: NDArray[np.int64], where: str, groups: NDArray[np.int64] | None = None
) -> SourceSplit:
    images = lambda start, stop: iter(pixels[start:stop])  # noqa: E731
    return SourceSplit(len(pixels), images, lambda i: f"{where} row {i}", labels, groups)


def _scans() -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    from sklearn.datasets import load_digits  # noqa: PLC0415  its import takes a second

    digits = load_digits()
    return np.round(digits.images * 255 / 16).astype(np.uint8), digits.target.astype(np.int64)


def _placed(digits: NDArray[np.uint8], rows: int, cols: int, draw: torch.Generator) -> NDArray[np.uint8]:
    canvas = np.zeros((len(digits), rows, cols), dtype=np.uint8)
    top = torch.randint(rows - SIDE + 1, (len(digits), 1, 1), generator=draw).numpy()
    left = torch.randint(cols - SIDE + 1, (len(digits), 1, 1), generator=draw).numpy()
    inside = np.arange(SIDE)
    canvas[np.arange(len(digits))[:, None, None], top + inside[:, None], left + inside] = digits
    return canvas


def read_hub(
    repository: str, config: DataConfig, *, test: str = "test", holdout: float = DEFAULT_HOLDOUT
) -> Source:
    """Return a dataset of the Hugging Face Hub, which is kept in the cache of `datasets`."""
    name = repository.partition("/")[2]
    words: dict[SplitName, str] = {"train": "train", "test": test}
    files = {split: _download(name, repository, word) for split, word in words.items()}
    tables = {split: list(map(open_arrow, paths)) for split, paths in files.items()}
    splits, columns = splits_of(tables, config)
    content_hash = hash_tree({f"{i} {file.name}": file for i, file in enumerate(chain(*files.values()))})
    source = Source(name, splits, (), content_hash, holdout, fixed=True, has_columns=True)
    return with_class_names(source, columns.names)


def _download(name: str, repository: str, split: str) -> list[Path]:
    try:
        import datasets  # noqa: PLC0415  # the optional extra `hub`

        loaded = datasets.load_dataset(repository, split=split, keep_in_memory=False)
    except Exception as error:  # also connection, proxy, log-in and cache errors of four libraries
        missing = isinstance(error, ImportError)
        reason = "it needs pip install -e '.[hub]'" if missing else error_line(error)
        raise RuntimeError(
            f"dataset '{name}' cannot be downloaded from the Hugging Face Hub ({reason}); "
            f"give {local_formats()}, or copy a filled Hub cache and set HF_HUB_OFFLINE=1"
        ) from error
    return [Path(file["filename"]) for file in loaded.cache_files]


# Not augmented in fine-tuning: mirror images of digits are other characters.
DATASETS["digits"] = NamedDataset(read_digits, NoAugmentation())
DATASETS["translated-digits"] = NamedDataset(read_translated_digits, NoAugmentation())
DATASETS["cifar10"] = NamedDataset(partial(read_hub, "uoft-cs/cifar10"), PadCropFlip())
DATASETS["cifar100"] = NamedDataset(partial(read_hub, "uoft-cs/cifar100"), PadCropFlip())
DATASETS["stl10"] = NamedDataset(partial(read_hub, "tanganke/stl10"))
# ImageNet's test labels are not public, so its validation set is the test set, as in the papers.
IMAGENET = partial(read_hub, "ILSVRC/imagenet-1k", test="validation", holdout=0.04)
DATASETS["imagenet-1k"] = NamedDataset(IMAGENET)
DATASETS["tiny-imagenet"] = NamedDataset(partial(read_hub, "zh-plus/tiny-imagenet", test="valid"))
