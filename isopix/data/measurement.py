"""The measurement record of a number: the images, the labels and the choices that it depends on."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from isopix.core import config
from isopix.core.images import image_batches
from isopix.data.dataset import ImageDataset
from isopix.data.missing_classes import missing_class_notes
from isopix.data.sources.base import SPLIT_NAMES, SplitName
from isopix.data.splits import Split, majority_accuracy

# What two numbers must have in common to be compared.
COMPARED = {
    "images_hash": "images",
    "fitted_hash": "images fitted to",
    "classes": "classes",
    "labels_seen": "labels seen in training",
    "selection": "selection",
}
DESCRIBED = ("labels_seen", "selection")  # those whose values say more than their names


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """What a loss or an accuracy was measured on. It is saved beside the number, as `measurement`.

    `images` of the `available` images of `split` were used, or of those given if it is None; `left_out` ones
    were not, as copies of images that the model was trained on or selected by. `images_hash` is a hash of the
    content and the labels of the images used, before they are resized, and `fitted_hash` that of the training
    and validation images of a classifier of frozen features, of which `fitted_images` are training images.
    `classes` counts the classes present in each split. The model was trained on `labels_seen` labels; None is
    unknown. `selection` says what was chosen, and by which images; `seeds` (None is unknown) and `baselines`
    (in the unit of the number) are by name. `warnings` name the classes of validation and test that train
    lacks, and say if the training images of the model are not known.
    """

    data: str
    split: SplitName | None
    images: int
    available: int
    images_hash: str
    left_out: int = 0
    fitted_images: int | None = None
    fitted_hash: str = ""
    classes: Mapping[str, int] = field(default_factory=dict)
    labels_seen: int | None = 0
    selection: str = ""
    seeds: Mapping[str, int | None] = field(default_factory=dict)
    baselines: Mapping[str, float] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return plain nested values, ready for JSON."""
        return config.to_dict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Measurement":
        """Read the values of `to_dict`. Raises ValueError for anything else."""
        return config.from_dict(cls, values)

    @property
    def count(self) -> str:
        """The images, as `2,000 of 10,000 test images of cifar10`.

        A dataset without splits has a training split only, also if nothing was trained on it: those of a
        training split are `60 images of photos (training split)`.
        """
        used = (
            f"{self.images:,}" if self.images == self.available else f"{self.images:,} of {self.available:,}"
        )
        noun = "image" if self.available == 1 else "images"
        if self.split is None:
            return f"{used} given {noun}"
        return split_images(used, self.split, self.data, noun)

    @property
    def line(self) -> str:
        """The record in one line: the images, the classes, what was selected, and the labels seen."""
        parts = [self.count]
        if self.left_out:
            parts.append(f"{self.left_out:,} copies of training or validation images are left out")
        if self.split is not None and self.split in self.classes:
            parts.append(f"{self.classes[self.split]:,} classes")
        if self.fitted_images is not None:
            parts.append(f"fitted to {self.fitted_images:,} training images")
        if self.selection:
            parts.append(self.selection)
        if self.labels_seen:
            parts.append(f"the network was trained on the labels of {self.labels_seen:,} different images")
        return "; ".join(parts)


def split_images(count: str, split: str, data: str, noun: str = "images") -> str:
    """Return `60 test images of photos`, or `60 images of photos (training split)`."""
    return (
        f"{count} {noun} of {data} (training split)"
        if split == "train"
        else f"{count} {split} {noun} of {data}"
    )


def measurement_of(data: ImageDataset, split: SplitName, used: Split | None = None) -> Measurement:
    """Return the record of a number on a split of `data`, or on the part of it that was `used`."""
    splits: dict[SplitName, Split] = {name: getattr(data, name) for name in SPLIT_NAMES}
    if used is not None:
        splits[split] = used
    measured = splits[split]
    labels = {name: each.labels for name, each in splits.items() if len(each) and each.labels is not None}
    return Measurement(
        data=data.name,
        split=split,
        images=len(measured),
        available=measured.available,
        images_hash=images_hash(measured),
        left_out=data.left_out.get(split, 0),
        classes={name: len(set(each.tolist())) for name, each in labels.items()},
        seeds={"data.seed": data.seed},
        warnings=(*missing_class_notes(data), *unknown_images_warning(data, split)),
    )


def unknown_images_warning(data: ImageDataset, split: SplitName = "test") -> tuple[str, ...]:
    """Return a warning if a model may have been trained on images of a split, as its own are not known."""
    if data.seen_known:
        return ()
    return (f"the training images of this model are not known; {split} images may be among them",)


def majority_baseline(data: ImageDataset) -> dict[str, float]:
    """Return the test accuracy of always predicting the most frequent class of train."""
    train, test = data.train.labels, data.test.labels
    if train is None or test is None:
        return {}
    return {"majority class": majority_accuracy(train, test)}


def differences(measurements: Sequence[Measurement | None]) -> list[str]:
    """Return in what records differ that decides whether their numbers can be compared.

    Numbers without a record, of earlier versions, differ in nothing that is known.
    """
    known = [each for each in measurements if each is not None]
    return [name for key, name in COMPARED.items() if len({str(getattr(each, key)) for each in known}) > 1]


def described_differences(one: Measurement | None, other: Measurement | None) -> list[str]:
    """Return the differences between two records with their values, where these are short."""
    if one is None or other is None:
        return []
    found = {key: (getattr(one, key), getattr(other, key)) for key in COMPARED}
    return [
        f"{name} ({'; '.join(map(_described, found[key]))})" if key in DESCRIBED else name
        for key, name in COMPARED.items()
        if found[key][0] != found[key][1]
    ]


def _described(value: int | str | None) -> str:
    if value is None:
        return "unknown"
    return f"{value:,}" if isinstance(value, int) else value or "none"


def images_hash(*splits: Split) -> str:
    """Return a hash of images and labels; of the pixels where the content of the files is not known."""
    state = hashlib.blake2b(digest_size=8)
    for split in splits:
        for tensor in image_batches(split.images) if split.hashes is None else (split.hashes,):
            state.update(tensor.cpu().contiguous().numpy().data)
        state.update(b"-" if split.labels is None else split.labels.cpu().contiguous().numpy().data)
    return state.hexdigest()
