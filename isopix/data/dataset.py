"""Image datasets: from data settings to training, validation and test images at the model's resolution."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated

import torch

from isopix.core.choices import Count, Range, check_ranges
from isopix.core.config import config
from isopix.core.overrides import override, parse
from isopix.core.random import generator
from isopix.core.text import printable
from isopix.data.augment import AugmentationSpec, NoAugmentation
from isopix.data.cache import CachedSource, StoreChoice, cached_source
from isopix.data.copies import distinct_splits
from isopix.data.decode import MAX_PIXELS, range_note
from isopix.data.patch_augment import NoPatchAugment, PatchAugmentSpec
from isopix.data.preprocess import Crop, PreprocessConfig, Resample
from isopix.data.results import BadFile
from isopix.data.sources.base import (
    SPLIT_NAMES,
    ReadOptions,
    Source,
    SplitName,
    find_reader,
    remember_source,
)
from isopix.data.sources.split_names import SplitReading
from isopix.data.splits import Split, balanced_subset, count_or_fraction, held_out_indices
from isopix.storage.atomic import write_csv
from isopix.storage.cache import default_cache
from isopix.storage.provenance import hash_bytes

Side = Annotated[int, Range(low=1, high=1024)]  # pixels
MAX_NAME = 50  # characters of a dataset's name, which becomes part of file names
FILE_INDEX = "file-hashes-1.sqlite"  # in the cache
MAX_NAMED = 5  # unreadable files in messages
MEASURED = 8  # images of each half of the training split, of whose samples the largest is found
UNLABELED = "in a folder, put each class in a sub-folder; in .npz give y_train; or set data.label_column"
MAX_BAD_FRACTION = 0.01  # of all images; above it the dataset itself is probably wrong


@config
class DataConfig:
    """The dataset, its resolution, and its training, validation and test splits."""

    source: str = "digits"
    """Name, such as digits or cifar10, or path to a folder or file of images."""
    splits: SplitReading = "auto"
    """Whether words such as train, val and test in names of folders, files and arrays are splits. `auto`
    refuses two readings; `names` leaves out what names no split; `none` reads all as training images.
    """
    rows: Side = 32
    """Rows of pixels of the network's inputs."""
    cols: Side = 32
    """Columns of pixels."""
    crop: Crop = "center"
    """After resizing the shorter side to fit: the center, or a random box drawn once per image.
    `resized_center` crops the resized image at whole pixels, as Hugging Face's image processors do;
    `squash` ignores the aspect ratio.
    """
    crop_fraction: Annotated[float, Range(above=0, high=1)] = 1.0
    """Side of the box, as a fraction of that of the largest one."""
    resample: Resample = "area"
    """Resampling filter."""
    max_pixels: Annotated[int, Range(low=1, high=2 * MAX_PIXELS)] = MAX_PIXELS
    """Pixels of an image, by its header; larger ones are not read."""
    white: Annotated[int, Range(low=255, high=2**31 - 1)] | None = None
    """Sample that is white in gray images of more than 8 bits, as 4095 for 12 bits; null: 65,535."""
    holdout: Annotated[float, Range(low=0, below=0.5)] | None = None
    """Fraction of the training images held out for each of validation and test that the source lacks; null:
    0.1, and 0.04 for imagenet-1k (iGPT section 3.1).
    """
    train_on_validation: bool = False
    """Whether validation images are added to the training images."""
    limit: Count | None = None
    """Images kept of each split, equally many of each class as far as possible; null keeps all."""
    labels_per_class: int | str | None = None
    """Training images kept of each class: a number, or a fraction such as `10%`; null keeps all."""
    subset: int = 0
    """Index of the random draw of `labels_per_class`."""
    label_column: str | None = None
    """Column of labels in a table or metadata.csv, or field of the .json in tar files; null: by its name."""
    image_column: str | None = None
    """Column of images in a table, of their names in `metadata.csv`, or their extension in tar files."""
    placements: Count = 6
    """Random places of each training digit in translated-digits; validation and test have half."""
    seed: int = 0
    """Seed of everything about the images: crops, held-out images, limits and subsets."""
    store: StoreChoice = "auto"
    """How the cache keeps images: as pixels, or encoded without loss. `auto` encodes what would take more
    than 4 GiB and a quarter of the free disk as pixels. The numbers are the same.
    """
    workers: Annotated[int, Range(low=0, high=256)] | None = None
    """Processes that decode `encoded` images in training; null: one for each core, at most 8; 0: none."""
    augment: AugmentationSpec = NoAugmentation()
    """Changes of training images."""
    patch_augment: PatchAugmentSpec = NoPatchAugment()
    """Changes of the model's inputs, patch by patch, and not of its targets."""

    def __post_init__(self) -> None:
        check_ranges(self)
        if self.subset < 0 or (self.subset and self.labels_per_class is None):
            allowed = "0 or more, and above 0 only with labels_per_class"
            raise ValueError(f"subset is {self.subset}; allowed: {allowed}")
        if self.crop == "squash" and self.crop_fraction != 1:
            raise ValueError(f"crop_fraction is {self.crop_fraction}; crop=squash takes the whole image: 1")
        if self.labels_per_class is not None:
            count_or_fraction(self.labels_per_class, "labels_per_class")  # raises ValueError
        self.augment.source_side(self.rows, self.cols)  # raises ValueError if it does not fit

    def updated(self, settings: Iterable[str]) -> "DataConfig":
        """Return these settings with changes such as `label_column=species` or `data.white=4095`."""
        return override(self, {name.removeprefix("data."): value for name, value in parse(settings).items()})


@dataclass(frozen=True)
class ImageDataset:
    """Three splits of one source; equal fingerprints mean equal sources, preprocessing and membership."""

    name: str
    classes: tuple[str, ...]  # class names; empty without labels
    train: Split
    validation: Split
    test: Split
    fingerprint: str
    bad_files_csv: Path | None = None  # where images that could not be read are listed, if there are any
    seed: int | None = None  # of the settings; None: unknown
    left_out: Mapping[SplitName, int] = field(default_factory=dict)  # copies, and images that a run has seen
    notes: tuple[str, ...] = ()  # how labels were mapped to classes, and which files and copies are left out
    seen_known: bool = True  # whether all images that a run has seen are known, so that none is left

    def labels_of(self, split: Split) -> list[str | None]:
        """Return the name of the class of each image of a split, None without one."""
        if split.labels is None:
            return [None] * len(split)
        return [self.classes[label] for label in split.labels.tolist()]

    def require_validation(self, choice: str) -> None:
        """Raise ValueError without validation images: test images must not be used to select `choice`."""
        if not len(self.validation):
            raise ValueError(
                f"{choice} is chosen by validation images, and dataset '{self.name}' has none; it needs "
                "data.holdout above 0 and data.train_on_validation=false, or a validation split of its own"
            )

    def require_labels(self, verb: str) -> None:
        splits = {name: getattr(self, name) for name in SPLIT_NAMES}
        unlabeled = [name for name, split in splits.items() if len(split) and split.labels is None]
        if unlabeled:
            missing = f"dataset '{self.name}' has none in {', '.join(unlabeled)}"
            notes = "; ".join(each for each in self.notes if "label" in each)
            raise ValueError(f"{verb} needs labels; {missing}: {notes or UNLABELED}")
        if self.train.labels is not None and len(set(self.train.labels.tolist())) == 1:
            images = f"those of dataset '{self.name}' are all of {self.classes[int(self.train.labels[0])]}"
            raise ValueError(f"{verb} needs training images of two classes; {images}")


def load_dataset(config: DataConfig, *, cache: Path | None = None) -> ImageDataset:
    """Return the dataset of these settings; from the cache after the first time.

    A source's own splits are used, without copies (`distinct_splits`) but for published datasets; those that
    it lacks are held out of training images (`held_out_indices`).
    """
    cache = cache or default_cache()
    source = open_source(config, cache)()
    remember_source(config.source)
    cached = cached_source(source, _preprocess_configs(source, config), cache, config.store)
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


def open_source(config: DataConfig, cache: Path | None = None) -> Callable[[], Source]:
    """Return what reads the source of these settings; the cache, if any, keeps the hashes of its files."""
    index = None if cache is None else cache / FILE_INDEX
    read = (config.splits, config.label_column, config.image_column)
    options = ReadOptions(config.rows, config.cols, config.placements, index, *read)
    reader = find_reader(config.source, options)
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


def preprocess_config(config: DataConfig) -> PreprocessConfig:
    """Return how an image of a caller becomes pixels: by the center crop if the settings have random ones."""
    return PreprocessConfig(
        rows=config.rows,
        cols=config.cols,
        resample=config.resample,
        crop="center" if config.crop == "random" else config.crop,
        crop_fraction=config.crop_fraction,
        max_pixels=config.max_pixels,
        white=config.white,
    )


def _preprocess_configs(source: Source, config: DataConfig) -> dict[SplitName, PreprocessConfig]:
    """Full-resolution images are kept only for splits that are trained on."""
    side = config.augment.source_side(config.rows, config.cols)
    trained = ("train", "validation") if config.train_on_validation else ("train",)
    own = replace(preprocess_config(config), crop=config.crop, seed=config.seed)
    return {name: replace(own, full_side=side if name in trained else None) for name in source.splits}


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
