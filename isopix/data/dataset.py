"""The settings of a dataset, and its training, validation and test images at the model's resolution."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from isopix.core.choices import Count, Range, SplitName, check_ranges
from isopix.core.config import config
from isopix.core.overrides import override, parse
from isopix.data.augment import AugmentationSpec, NoAugmentation
from isopix.data.decode import MAX_PIXELS
from isopix.data.patch_augment import NoPatchAugment, PatchAugmentSpec
from isopix.data.splits import NO_LABEL, Split, count_or_fraction

Side = Annotated[int, Range(low=1, high=1024)]  # pixels
SplitReading = Literal["auto", "names", "none"]
Crop = Literal["center", "random", "resized_center", "squash"]
Resample = Literal["area", "bilinear", "bicubic"]
StoreChoice = Literal["auto", "pixels", "encoded"]

HOW_TO_LABEL = "in a folder, put each class in a subfolder; in .npz give y_train; or set data.label_column"


@config
class DataConfig:
    """The dataset, its resolution, and its training, validation and test splits."""

    source: str = "digits"
    """Name, such as digits or cifar10, or path to a folder or file of images."""
    splits: SplitReading = "auto"
    """Whether words such as train, val and test in names of folders, files and arrays are splits. `auto`
    raises an error if the layout is ambiguous; `names` skips folders that name no split; `none` reads all as
    training images.
    """
    rows: Side = 32
    """Input height in pixels."""
    cols: Side = 32
    """Input width in pixels."""
    crop: Crop = "center"
    """After resizing the shorter side to fit: the center, or a random box drawn once per image.
    `resized_center` crops the resized image at whole pixels, as Hugging Face's image processors do;
    `squash` ignores the aspect ratio.
    """
    crop_fraction: Annotated[float, Range(above=0, high=1)] = 1.0
    """Side length of the crop, as a fraction of the largest possible."""
    resample: Resample = "area"
    """Resampling filter."""
    max_pixels: Annotated[int, Range(low=1, high=2 * MAX_PIXELS)] = MAX_PIXELS
    """Maximum number of pixels of an image (from the file header); larger images are skipped."""
    white: Annotated[int, Range(low=255, high=2**31 - 1)] | None = None
    """Value that maps to white in grayscale images of more than 8 bits, e.g. 4095; null: 65,535."""
    holdout: Annotated[float, Range(low=0, below=0.5)] | None = None
    """Fraction of the training images held out for a missing validation split, and for a missing test split;
    null: 0.1, or 0.04 for imagenet-1k (iGPT section 3.1).
    """
    train_on_validation: bool = False
    """Whether validation images are added to the training images."""
    limit: Count | None = None
    """Maximum number of images per split, balanced over classes as far as possible; null: all."""
    labels_per_class: int | str | None = None
    """Training images per class: a number, or a percentage such as `10%`; null: all."""
    subset: int = 0
    """Index of the random subset of `labels_per_class`."""
    label_column: str | None = None
    """Label column of a table or metadata.csv, or field of the .json in tar files; null: found by name."""
    image_column: str | None = None
    """Image column of a table, file name column of `metadata.csv`, or extension in tar files."""
    labels_file: str | None = None
    """CSV file of labels instead of subfolders: columns `file`, a path in the folder of images, and `label`,
    which may be empty; null: the files metadata.csv in the folder, if they have labels.
    """
    exclude: tuple[str, ...] | str = ()
    """Globs of files in a folder of images to leave out: `["*.gif", "drafts/*"]`; `*` also matches `/`."""
    placements: Count = 6
    """Random positions of each training digit in translated-digits; half as many in validation and test."""
    seed: int = 0
    """Seed of crops, held-out images, limits and label subsets."""
    store: StoreChoice = "auto"
    """Format of cached images: pixels, or losslessly encoded. `auto` encodes datasets whose pixels would take
    more than 4 GiB and a quarter of the free disk. Results are the same.
    """
    workers: Annotated[int, Range(low=0, high=256)] | None = None
    """Processes that decode `encoded` images in training; null: one per core, at most 8; 0: none."""
    augment: AugmentationSpec = NoAugmentation()
    """Augmentation of training images."""
    patch_augment: PatchAugmentSpec = NoPatchAugment()
    """Augmentation of single patches of the model's inputs; targets do not change."""

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

    def full_side(self, split: SplitName) -> int | None:
        """Return the shorter side of the full-resolution images that are stored: of those trained on."""
        is_trained = split == "train" or (split == "validation" and self.train_on_validation)
        return self.augment.source_side(self.rows, self.cols) if is_trained else None

    def centered(self) -> "DataConfig":
        """Return these settings with the center crop instead of a random one: for images of a caller."""
        return replace(self, crop="center") if self.crop == "random" else self

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
        return [None if label == NO_LABEL else self.classes[label] for label in split.labels.tolist()]

    def require_validation(self, choice: str) -> None:
        """Raise ValueError without validation images: test images must not be used to select `choice`."""
        if not len(self.validation):
            raise ValueError(
                f"{choice} is chosen by validation images, and dataset '{self.name}' has none; it needs "
                "data.holdout above 0 and data.train_on_validation=false, or a validation split of its own"
            )

    def labeled(self, verb: str) -> "ImageDataset":
        """Return the images that have a label. Raises ValueError if a split has none, or train one class."""
        splits: dict[str, Split] = {name: getattr(self, name) for name in get_args(SplitName)}
        unlabeled = [name for name, split in splits.items() if len(split) and not split.present_classes]
        if unlabeled:
            missing = f"dataset '{self.name}' has none in {', '.join(unlabeled)}"
            notes = "; ".join(each for each in self.notes if "label" in each)
            raise ValueError(f"{verb} needs labels; {missing}: {notes or HOW_TO_LABEL}")
        if len(present := self.train.present_classes) == 1:
            images = f"those of dataset '{self.name}' are all of {self.classes[present.pop()]}"
            raise ValueError(f"{verb} needs training images of two classes; {images}")
        parts: dict[str, Any] = {name: split.labeled for name, split in splits.items()}
        return replace(self, **parts)
