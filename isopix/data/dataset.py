"""Image sets: from the settings of the data to training, validation and test images that a model can read."""

import csv
import hashlib
import os
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Literal

import torch

from isopix.core.config import config
from isopix.core.random import generator
from isopix.data.augment import AugmentationSpec, Plain
from isopix.data.cache import BadFile, Stored, stored
from isopix.data.patch_augment import NoNoise, PatchAugmentationSpec
from isopix.data.preprocess import Preparation
from isopix.data.resize import Resample
from isopix.data.sources.base import Source, SplitName, digest_of
from isopix.data.sources.hub import WAYS_ROUND
from isopix.data.sources.registry import NAMES, open_source
from isopix.data.splits import Split, balanced, hold_out, split_sizes

__all__ = ["Data", "ImageSet", "Split", "default_cache", "digest", "load", "write_bad_files"]

MAX_SIDE = 1024
MAX_BAD = 0.01  # of all images; above it the data set is not what its owner thinks


@config
class Data:
    """Which images, at which resolution, and what is held out of training.

    `source` is a name (digits, cifar10, cifar100, stl10, imagenet-1k, tiny-imagenet) or a path to a folder of
    images, an .npz file, a Parquet file or folder. The shorter side is made to fit, then `crop` takes the
    centre or a random box, drawn once an image. `holdout` None is the paper's: 0.1, and 0.04 for imagenet-1k.
    `limit` takes the first images of each split. `labels` then leaves so many images of each class in train,
    or a share of each (`10%`), drawn at random; `subset` numbers the draws. `augment` is how training images
    are drawn; `noise` is done to what of them the network is shown, and not to what it must name.
    """

    source: str = "digits"
    rows: int = 32
    cols: int = 32
    crop: Literal["centre", "random"] = "centre"
    resample: Resample = "area"
    holdout: float | None = None
    fold_back: bool = False
    limit: int | None = None
    labels: int | str | None = None
    subset: int = 0
    augment: AugmentationSpec = Plain()
    patch_augment: PatchAugmentationSpec = NoNoise()

    def __post_init__(self) -> None:
        if not self.source:
            raise ValueError(f"source is empty; give {WAYS_ROUND}, or one of: {', '.join(NAMES)}")
        for side in (self.rows, self.cols):
            if not 1 <= side <= MAX_SIDE:
                raise ValueError(
                    f"image side {side} is impossible; allowed: whole numbers from 1 to {MAX_SIDE}"
                )
        if self.holdout is not None and not 0 <= self.holdout < 0.5:
            raise ValueError(f"holdout is {self.holdout}; allowed: from 0 to below 0.5")
        if self.limit is not None and self.limit < 1:
            raise ValueError(f"limit is {self.limit}; allowed: 1 or more")
        if self.subset < 0 or (self.subset and self.labels is None):
            raise ValueError(f"subset is {self.subset}; allowed: 0 or more, and above 0 only with labels")
        self.wanted  # noqa: B018  # raises ValueError for what is neither a number nor a share
        self.augment.stored_side(self.rows, self.cols)  # raises ValueError where it does not fit

    @property
    def wanted(self) -> int | Fraction | None:
        """How many images of each class train holds: a number, a share, or None for all."""
        if self.labels is None:
            return None
        text = str(self.labels)
        try:
            wanted = Fraction(text.removesuffix("%")) / 100 if text.endswith("%") else int(text)
        except (ValueError, ZeroDivisionError):
            wanted = 0
        if not (wanted > 0 and (isinstance(wanted, int) or wanted <= 1)):
            raise ValueError(
                f"labels is {self.labels!r}; allowed: a number of images of each class, or a share as in 10%"
            )
        return wanted


@dataclass(frozen=True)
class ImageSet:
    """Three splits of one source; equal fingerprints mean equal sources, preparation and membership.

    Pixels are then equal as far as Pillow's versions agree.
    """

    name: str
    classes: tuple[str, ...]  # empty without labels
    train: Split
    validation: Split
    test: Split
    fingerprint: str
    skipped: tuple[BadFile, ...] = ()  # pictures that could not be read
    report: Path | None = None  # where they are listed, if there are any

    def require_validation(self, choice: str) -> None:
        """Raises ValueError without validation images: `choice` may not be made by test images."""
        if not len(self.validation):
            raise ValueError(
                f"{choice} is chosen by validation images, and data set '{self.name}' has none; it needs "
                "data.holdout above 0 and data.fold_back=false, or a validation split of its own"
            )

    def require_labels(self, verb: str) -> None:
        """Raises ValueError unless every image has a label and there are two classes or more."""
        if len(self.classes) == 1:
            raise ValueError(
                f"{verb} needs two classes or more; data set '{self.name}' has one: {self.classes[0]}"
            )
        splits = {"train": self.train, "validation": self.validation, "test": self.test}
        bare = [name for name, split in splits.items() if len(split) and split.labels is None]
        if bare:
            raise ValueError(
                f"{verb} needs labels; data set '{self.name}' has none in {', '.join(bare)}: "
                "in a folder, put the images of each class in a sub-folder; "
                "in an .npz file, give y_train and y_test"
            )


def load(data: Data, *, seed: int = 0, cache: Path | None = None, bad_files: Path | None = None) -> ImageSet:
    """The image set of these settings; from the cache after the first time.

    A source's own validation and test splits are used. Each one that it lacks takes ceil(holdout * n) of its
    n training images, by a permutation of `seed`: 50,000 leave 45,000; the others keep their order.
    `fold_back` leaves (or puts) the validation images in train, and validation empty: as many of each as
    without it; the test images stay the same. `cache` is $ISOPIX_CACHE or ~/.cache/isopix unless given.
    Pictures that cannot be read are listed in `bad_files`, or in a file in the cache. Raises ValueError if
    they are more than 1 %, and what the readers and the cache raise.
    """
    source = open_source(data.source)
    cache = cache or default_cache()
    held = stored(source, _preparations(source, data, seed), cache)
    report = _report(source, held, bad_files or cache / f"{held.key}.bad-files.csv")
    holdout = source.holdout if data.holdout is None else data.holdout
    splits = _divide(held, data, holdout, seed)
    train = splits["train"]
    membership = f"{holdout} {data.fold_back} {data.limit} {seed}"
    if data.fold_back and data.limit is not None:
        membership += " each limited"  # which earlier versions did after folding
    if data.wanted is not None:
        train = _few(train, data, seed)
        membership += f" {data.labels} {data.subset}"
    return ImageSet(
        name=source.name,
        classes=source.classes,
        train=train,
        validation=splits["validation"],
        test=splits["test"],
        fingerprint=digest_of(held.content.encode(), membership.encode()),
        skipped=held.bad,
        report=report,
    )


def digest(images: ImageSet) -> str:
    """One hash of all pixels and labels; settings of training, such as augmentation, do not enter."""
    state = hashlib.blake2b(digest_size=16)
    for split in (images.train, images.validation, images.test):
        for tensor in (split.images, split.labels):
            state.update(str(None if tensor is None else tuple(tensor.shape)).encode())
            state.update(b"" if tensor is None else tensor.contiguous().numpy().data)
    return state.hexdigest()


def default_cache() -> Path:
    """$ISOPIX_CACHE, or ~/.cache/isopix."""
    return Path(os.environ.get("ISOPIX_CACHE") or Path.home() / ".cache" / "isopix")


def write_bad_files(path: Path, bad: tuple[BadFile, ...]) -> None:
    """A table of path and reason."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8", errors="surrogateescape") as file:
        csv.writer(file).writerows([("path", "reason"), *((each.path, each.reason) for each in bad)])


def _preparations(source: Source, data: Data, seed: int) -> dict[SplitName, Preparation]:
    """Whole pictures are kept only for the splits that are trained on."""
    side = data.augment.stored_side(data.rows, data.cols)
    trained = ("train", "validation") if data.fold_back else ("train",)
    return {
        name: Preparation(
            rows=data.rows,
            cols=data.cols,
            resample=data.resample,
            crop_seed=seed if data.crop == "random" else None,
            wide=side if name in trained else None,
        )
        for name in source.parts
    }


def _report(source: Source, held: Stored, path: Path) -> Path | None:
    if not held.bad:
        return None
    write_bad_files(path, held.bad)
    total = sum(part.count for part in source.parts.values())
    if len(held.bad) > MAX_BAD * total:
        first = held.bad[0]
        raise ValueError(
            f"{len(held.bad)} of {total} images cannot be read, above the limit of {MAX_BAD:.0%}; "
            f"first: {first.path} ({first.reason}); all: {path}"
        )
    return path


def _few(train: Split, data: Data, seed: int) -> Split:
    if train.labels is None or data.wanted is None:
        raise ValueError(f"labels={data.labels} needs labels; data set '{data.source}' has none in train")
    return train.take(balanced(train.labels, data.wanted, generator(seed, "subset", data.subset)))


def _divide(held: Stored, data: Data, holdout: float, seed: int) -> dict[SplitName, Split]:
    """Train, validation and test, whichever of them the source has."""
    own = held.splits
    count = len(own["train"])
    taken = split_sizes(count, holdout)[1]
    sizes = tuple(0 if name in own else taken for name in ("validation", "test"))
    stay, validation, test = (index[: data.limit] for index in hold_out(count, sizes, seed))
    if data.fold_back:
        stay, validation = torch.cat([stay, validation]).sort().values, validation[:0]
    splits: dict[SplitName, Split] = {
        "train": own["train"] if len(stay) == count else own["train"].take(stay),
        "validation": own["train"].take(validation),
        "test": own["train"].take(test),
    }
    splits |= {name: split.first(data.limit) for name, split in own.items() if name != "train"}
    if data.fold_back and "validation" in own:
        splits["train"] = splits["train"].join(splits["validation"])
        splits["validation"] = splits["validation"].first(0)
    return splits
