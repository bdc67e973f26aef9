"""Classes of validation and test images that no training image has."""

from collections.abc import Collection, Mapping

from isopix.data.dataset import ImageDataset
from isopix.data.sources.base import SplitName
from isopix.data.splits import Split

MAX_LISTED = 5  # classes in a note


def missing_classes(
    data: ImageDataset, trained: Collection[str] | None = None
) -> dict[SplitName, dict[str, int]]:
    """Return the classes without training images by name, with the numbers of their images in each split.

    `trained` are the names of the classes with training images; None reads them from `data.train`. Splits
    without such images are left out; the result is empty without labels.
    """
    known = training_classes(data) if trained is None else set(trained)
    if known is None:
        return {}
    held_out: dict[SplitName, Split] = {"validation": data.validation, "test": data.test}
    found = {name: _counts(split, known, data.classes) for name, split in held_out.items()}
    return {name: counts for name, counts in found.items() if counts}


def training_classes(data: ImageDataset) -> set[str] | None:
    """Return the names of the classes that training images have; None without labels."""
    labels = data.train.labels
    return None if labels is None else {data.classes[label] for label in set(labels.tolist())}


def missing_class_notes(data: ImageDataset, trained: Collection[str] | None = None) -> tuple[str, ...]:
    """Return a sentence for each split with classes that have no training images, which it names."""
    sizes = {"validation": len(data.validation), "test": len(data.test)}
    return tuple(
        f"{sum(counts.values()):,} of {sizes[name]:,} {name} images of dataset '{data.name}' are of classes "
        f"without training images, which no classifier can predict: {_listed(counts)}"
        for name, counts in missing_classes(data, trained).items()
    )


def _counts(split: Split, known: set[str], classes: tuple[str, ...]) -> dict[str, int]:
    """The numbers of images of classes other than the known ones."""
    if split.labels is None:
        return {}
    counts = split.labels.bincount(minlength=len(classes)).tolist()
    return {name: count for name, count in zip(classes, counts, strict=True) if count and name not in known}


def _listed(counts: Mapping[str, int]) -> str:
    """The first classes with their numbers of images, as `cat (4), dog (2) and 3 more`."""
    names = [f"{name} ({count:,})" for name, count in list(counts.items())[:MAX_LISTED]]
    rest = len(counts) - len(names)
    return ", ".join(names) + (f" and {rest} more" if rest else "")
