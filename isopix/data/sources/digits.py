"""scikit-learn's handwritten digits."""

import numpy as np
from sklearn.datasets import load_digits

from isopix.data.sources.base import Source, SourceSplit, SplitName, array_split, class_names
from isopix.storage.hashing import hash_bytes


def read_digits() -> Source:
    """Return the 1,797 scans of 8x8 pixels; gray level v of 0..16 becomes round(v * 255 / 16)."""
    digits = load_digits()
    pixels = np.round(digits.images * 255 / 16).astype(np.uint8)
    labels = np.asarray(digits.target, dtype=np.int64)
    splits: dict[SplitName, SourceSplit] = {"train": array_split(pixels, labels, "digits")}
    content_hash = hash_bytes(pixels.tobytes(), labels.tobytes())
    return Source("digits", splits, class_names((), splits), content_hash)
