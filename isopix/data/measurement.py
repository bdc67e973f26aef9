"""The measurement record of a number: the images, labels and choices that it depends on."""

import hashlib
from collections import Counter
from collections.abc import Collection, Sequence

from isopix.core.types import image_batches
from isopix.data.dataset import ImageDataset
from isopix.data.sources.base import SPLIT_NAMES, SplitName
from isopix.data.splits import Split, majority_accuracy
from isopix.storage.result import Measurement

# What two numbers must have in common to be compared.
COMPARED = {
    "images_hash": "images",
    "fitted_hash": "images fitted to",
    "classes": "classes",
    "labels_seen": "labels seen in training",
    "selection": "selection",
}
MAX_LISTED = 5  # classes in a note
DESCRIBED = ("labels_seen", "selection")  # those whose values say more than their names


def measurement_of(data: ImageDataset, split: SplitName, used: Split | None = None) -> Measurement:
    """Return the record of a number on a split of `data`, or on the part of it that was `used`."""
    splits: dict[SplitName, Split] = {name: getattr(data, name) for name in SPLIT_NAMES}
    if used is not None:
        splits[split] = used
    measured = splits[split]
    classes = {name: len(each.present_classes) for name, each in splits.items()}
    return Measurement(
        data=data.name,
        split=split,
        images=len(measured),
        available=measured.available,
        images_hash=images_hash(measured),
        left_out=data.left_out.get(split, 0),
        classes={name: count for name, count in classes.items() if count},
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
    """Return in what records differ that decides whether their numbers can be compared, with short values."""
    found = []
    for key, name in COMPARED.items():
        values = {str(value): value for value in (getattr(each, key) for each in measurements if each)}
        shown = f" ({'; '.join(map(_described, values.values()))})" if key in DESCRIBED else ""
        found += [f"{name}{shown}"] * (len(values) > 1)
    return found


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


def training_classes(data: ImageDataset) -> set[str] | None:
    """Return the names of the classes that training images have; None without labels."""
    present = {data.classes[label] for label in data.train.present_classes}
    return None if data.train.labels is None else present


def missing_class_notes(data: ImageDataset, trained: Collection[str] | None = None) -> tuple[str, ...]:
    """Return a sentence for each split with classes of which training, or `trained`, has no image."""
    known, notes = training_classes(data) if trained is None else trained, list[str]()
    if known is None:
        return ()
    for name in SPLIT_NAMES[1:]:
        counts = Counter(filter(None, data.labels_of(getattr(data, name))))
        missing = {each: counts[each] for each in data.classes if each in counts and each not in known}
        if missing:
            named = [f"{each} ({count:,})" for each, count in list(missing.items())[:MAX_LISTED]]
            rest = len(missing) - len(named)
            images = f"{sum(missing.values()):,} of {len(getattr(data, name)):,} {name} images"
            notes.append(
                f"{images} of dataset '{data.name}' are of classes without training images, which no "
                f"classifier can predict: {', '.join(named)}" + (f" and {rest} more" if rest else "")
            )
    return tuple(notes)
