"""scikit-learn's handwritten digits, as they are and translated on a larger canvas."""

import numpy as np
import torch
from numpy.typing import NDArray

from isopix.core.random import generator
from isopix.data.augment import NoAugmentation
from isopix.data.sources.base import (
    DATASETS,
    NamedDataset,
    ReadOptions,
    Source,
    SourceSplit,
    SplitName,
    with_class_names,
)
from isopix.storage.hashing import hash_bytes

SIDE = 8
# Digits of each split of translated-digits; the other 1,197 are for training.
EVALUATED: dict[SplitName, int] = {"validation": 150, "test": 450}


def read_digits(options: ReadOptions) -> Source:
    """Return the 1,797 scans of 8x8 pixels; gray level v of 0..16 becomes round(v * 255 / 16)."""
    pixels, labels = _scans()
    splits: dict[SplitName, SourceSplit] = {"train": _array_split(pixels, labels, "digits")}
    content_hash = hash_bytes(pixels.tobytes(), labels.tobytes())
    return with_class_names(Source("digits", splits, (), content_hash, fixed=True))


def read_translated_digits(options: ReadOptions) -> Source:
    """Return the digits at random places of a black canvas of the size of `options`.

    The digits are divided into training, validation and test first, always in the same way; then each
    training digit is placed `placements` times, each validation and test digit half as often, at least once.
    The groups of a split are the indices of its digits in scikit-learn's data. Raises ValueError for a canvas
    smaller than 8x8.
    """
    rows, cols = options.rows, options.cols
    if min(rows, cols) < SIDE:
        raise ValueError(f"translated-digits has no images of {rows} x {cols} pixels; allowed: 8 x 8 or more")
    pixels, labels = _scans()
    order = torch.randperm(len(pixels), generator=generator(0, "translated-digits")).numpy()
    test, validation, train = np.split(order, np.cumsum([EVALUATED["test"], EVALUATED["validation"]]))
    members: dict[SplitName, NDArray[np.int64]] = {"train": train, "validation": validation, "test": test}
    splits: dict[SplitName, SourceSplit] = {}
    content = []
    for name, digits in members.items():
        times = options.placements if name == "train" else max(1, options.placements // 2)
        copies = np.tile(digits, times)
        images = _placed(pixels[copies], rows, cols, generator(0, f"placements.{name}"))
        splits[name] = _array_split(images, labels[copies], f"translated-digits {name}", copies)
        content += [images.tobytes(), labels[copies].tobytes(), copies.tobytes()]
    return with_class_names(Source("translated-digits", splits, (), hash_bytes(*content), fixed=True))


def _array_split(
    pixels: NDArray[np.uint8], labels: NDArray[np.int64], where: str, groups: NDArray[np.int64] | None = None
) -> SourceSplit:
    return SourceSplit(
        len(pixels),
        lambda start, stop: iter(pixels[start:stop]),
        lambda i: f"{where} row {i}",
        labels,
        groups,
    )


def _scans() -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    from sklearn.datasets import load_digits  # noqa: PLC0415  its import takes a second

    digits = load_digits()
    pixels = np.round(digits.images * 255 / 16).astype(np.uint8)
    return pixels, np.asarray(digits.target, dtype=np.int64)


def _placed(digits: NDArray[np.uint8], rows: int, cols: int, draw: torch.Generator) -> NDArray[np.uint8]:
    """Return images [n rows cols], each digit at a uniformly random place."""
    canvas = np.zeros((len(digits), rows, cols), dtype=np.uint8)
    top = torch.randint(rows - SIDE + 1, (len(digits),), generator=draw).numpy()
    left = torch.randint(cols - SIDE + 1, (len(digits),), generator=draw).numpy()
    inside = np.arange(SIDE)
    y, x = top[:, None, None] + inside[:, None], left[:, None, None] + inside
    canvas[np.arange(len(digits))[:, None, None], y, x] = digits
    return canvas


# Not augmented in fine-tuning: mirror images of digits are other characters.
DATASETS["digits"] = NamedDataset(read_digits, NoAugmentation())
DATASETS["translated-digits"] = NamedDataset(read_translated_digits, NoAugmentation())
