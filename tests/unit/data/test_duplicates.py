"""Duplicates: equal hashes, and thumbnails that are almost equal."""

import numpy as np
import pytest

from isopix.data import duplicates
from isopix.data.duplicates import DuplicateGroup, exact_duplicates, near_duplicates


def test_images_of_one_hash_are_a_group() -> None:
    hashes = np.array([5, 3, 5, 9, 3, 5], np.int64)
    assert exact_duplicates(hashes) == [DuplicateGroup("exact", (0, 2, 5)), DuplicateGroup("exact", (1, 4))]
    assert exact_duplicates(np.zeros(0, np.int64)) == []


def pairs_by_definition(thumbnails: np.ndarray) -> set[tuple[int, int]]:
    """All pairs below both limits, one by one."""
    points = thumbnails.reshape(len(thumbnails), -1).astype(float)
    found = set()
    for i in range(len(points)):
        for j in range(i):
            limit = min(8.0, 0.2 * points[i].std(), 0.2 * points[j].std())
            if np.sqrt(((points[i] - points[j]) ** 2).mean()) <= limit:
                found.add((j, i))
    return found


@pytest.mark.parametrize("most", [1, 200, 10**6])
def test_near_duplicates_are_those_of_the_definition(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pairs of an image and its noisy, brighter version; blocks of few images, so that groups span them."""
    monkeypatch.setattr(duplicates, "BLOCK", 16)
    monkeypatch.setattr(duplicates, "MAX_PAIRS", most)
    rng = np.random.default_rng(0)
    base = rng.integers(0, 256, (100, 8, 8, 3)) * rng.uniform(0.05, 1, (100, 1, 1, 1))
    noise = rng.normal(0, 1, base.shape) * rng.uniform(0, 10, (100, 1, 1, 1))
    noise += rng.uniform(-6, 6, (100, 1, 1, 1))
    thumbnails = np.concatenate([base, base + noise]).clip(0, 255).round().astype(np.uint8)
    found = near_duplicates(np.arange(200), thumbnails)
    assert {group.members for group in found} == pairs_by_definition(thumbnails)
    assert 20 < len(found) < 95  # some of the noise is above the limits
    assert {group.kind for group in found} == {"near"}


def test_copies_of_a_near_duplicate_are_in_its_group() -> None:
    image = np.random.default_rng(0).integers(0, 256, (8, 8, 3), dtype=np.uint8)
    other = image ^ 1
    far = 255 - image
    thumbnails = np.stack([image, far, other, image, far])
    assert near_duplicates(np.array([1, 2, 3, 1, 2]), thumbnails) == [DuplicateGroup("near", (0, 2, 3))]


def test_flat_images_are_not_alike() -> None:
    thumbnails = np.stack([np.full((8, 8, 3), level, np.uint8) for level in (100, 103, 106)])
    assert near_duplicates(np.arange(3), thumbnails) == []
    assert near_duplicates(np.arange(0), thumbnails[:0]) == []
