"""Loading: from data settings to the splits of a dataset."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import torch

from isopix.core.random import generator
from isopix.core.text import printable
from isopix.data.cache import CachedSource, cached_source
from isopix.data.copies import distinct_splits
from isopix.data.dataset import DataConfig, ImageDataset
from isopix.data.decode import range_note
from isopix.data.results import BadFile
from isopix.data.sources.base import SPLIT_NAMES, Source, SplitName, find_reader, remember_source
from isopix.data.splits import Split, balanced_subset, count_or_fraction, held_out_indices
from isopix.storage.atomic import write_csv
from isopix.storage.cache import default_cache
from isopix.storage.provenance import hash_bytes

MAX_NAME = 50  # characters of a dataset's name, which becomes part of file names
MAX_NAMED = 5  # unreadable files in messages
MEASURED = 8  # images of each half of the training split, of whose samples the largest is found
MAX_BAD_FRACTION = 0.01  # of all images; above it the dataset itself is probably wrong


def load_dataset(config: DataConfig, *, cache: Path | None = None) -> ImageDataset:
    """Return the dataset of these settings; from the cache after the first time.

    A source's own splits are used, without copies (`distinct_splits`) but for published datasets; those that
    it lacks are held out of training images (`held_out_indices`).
    """
    cache = cache or default_cache()
    source = open_source(config)()
    remember_source(config.source)
    cached = cached_source(source, config, cache)
    bad = cached.bad_files
    bad_files_csv = cache / f"{cached.key}.bad-files.csv"
    skipped = _report_bad_files(bad, sum(each.num_images for each in source.splits.values()), bad_files_csv)
    holdout = source.holdout if config.holdout is None else config.holdout
    splits = _whole_splits(cached, config, holdout, exact=source.fixed)
    left_out, notes = dict[SplitName, int](), list[str]()
    if not source.fixed:
        splits, left_out, notes = distinct_splits(splits, source.name)
    splits = _limited(splits, config)
    membership = f"{holdout} {config.train_on_validation} {config.limit} {config.seed}"
    if config.labels_per_class is not None:
        membership += f" {config.labels_per_class} {config.subset}"
    membership += "" if config.label_column is None else f" label_column {config.label_column}"
    return ImageDataset(
        name=printable(source.name)[:MAX_NAME],
        classes=source.classes,
        train=splits["train"],
        validation=splits["validation"],
        test=splits["test"],
        fingerprint=hash_bytes(cached.content_hash.encode(), membership.encode()),
        bad_files_csv=bad_files_csv if bad else None,
        seed=config.seed,
        left_out=left_out,
        notes=(*source.notes, *skipped, *notes),
    )


def open_source(config: DataConfig) -> Callable[[], Source]:
    """Return what reads the source of these settings."""
    reader = find_reader(config)
    return lambda: _as_set(reader(), config)


def _as_set(source: Source, config: DataConfig) -> Source:
    """Return a source with what its images tell of the settings. Raises ValueError if they do not fit."""
    train = source.splits["train"]
    if (config.label_column or config.image_column) and not source.has_columns:
        names = "data.label_column or data.image_column names; tables, metadata.csv and .json in tar have"
        raise ValueError(f"'{source.name}' has no columns that {names}")
    if config.label_column and train.labels is None:
        missing = f"column '{config.label_column}' of '{source.name}' has no label for each training image"
        raise ValueError("; ".join([missing, *source.notes]))
    ranges = [(start, min(start + MEASURED, train.num_images)) for start in (0, train.num_images // 2)]
    some = (image for start, stop in ranges for image in train.images(start, stop))
    source = replace(source, notes=(*source.notes, *range_note(some, config.white)))
    if config.splits == "auto" and config.image_column is None:
        return source
    pieces = (source.content_hash, config.splits, config.image_column or "")
    return replace(source, content_hash=hash_bytes(*map(str.encode, pieces)))


def _report_bad_files(bad: Sequence[BadFile], total: int, path: Path) -> list[str]:
    """List unreadable files at the path, and return notes of them. Raises ValueError for too many."""
    if not bad:
        return []
    path.parent.mkdir(parents=True, exist_ok=True)
    write_csv(path, ["path", "reason"], ((each.path, each.reason) for each in bad))
    if len(bad) > MAX_BAD_FRACTION * total:
        raise ValueError(
            f"{len(bad)} of {total} images cannot be read, above the limit of {MAX_BAD_FRACTION:.0%}; "
            f"first: {bad[0].path} ({bad[0].reason}); all: {path}; remove or replace them"
        )
    notes = [f"skipped {each.path}: {each.reason}" for each in bad]
    if (more := len(bad) - MAX_NAMED) > 1:
        notes[MAX_NAMED:] = [f"skipped {more:,} more unreadable images: {path}"]
    return notes


def _whole_splits(
    cached: CachedSource, config: DataConfig, holdout: float, *, exact: bool
) -> dict[SplitName, Split]:
    own, hashes = cached.splits, cached.splits["train"].hashes
    assert hashes is not None, "the cache has them"
    fractions = tuple(0.0 if name in own else holdout for name in ("validation", "test"))
    indices = held_out_indices(hashes, fractions, config.seed, exact=exact)
    splits: dict[SplitName, Split] = {}
    for name, members in zip(SPLIT_NAMES, indices, strict=True):
        is_whole = len(members) == len(hashes)
        splits[name] = own["train"] if is_whole else replace(own["train"].select(members), total=None)
    return splits | {name: split for name, split in own.items() if name != "train"}


def _limited(whole: Mapping[SplitName, Split], config: DataConfig) -> dict[SplitName, Split]:
    splits = {name: split.balanced_sample(config.limit, config.seed) for name, split in whole.items()}
    if config.train_on_validation:
        splits["train"] = splits["train"].concat(splits["validation"])
        splits["validation"] = splits["validation"].select(torch.arange(0))
    if config.labels_per_class is not None:
        labels = splits["train"].labels
        if labels is None:
            raise ValueError(f"labels_per_class needs labels; dataset '{config.source}' has none in train")
        per_class = count_or_fraction(config.labels_per_class, "labels_per_class")
        draw = generator(config.seed, "subset", config.subset)
        splits["train"] = splits["train"].select(balanced_subset(labels, per_class, draw))
    return splits
