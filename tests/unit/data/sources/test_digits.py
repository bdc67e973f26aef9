"""scikit-learn's digits."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from isopix.data.sources.base import SPLIT_NAMES, Source, SplitName
from isopix.data.sources.digits import Canvas, read_digits, read_translated_digits


def test_digits_have_seventeen_gray_levels() -> None:
    source = read_digits()
    pixels = np.stack([np.asarray(image) for image in source.splits["train"].images()])
    assert pixels.shape == (1797, 8, 8)
    assert np.unique(pixels).tolist() == [round(v * 255 / 16) for v in range(17)]
    assert source.classes == tuple("0123456789")


def translated(rows: int = 14, cols: int = 14, placements: int = 6) -> Source:
    return read_translated_digits(Canvas(rows, cols, placements))


def images(source: Source, split: SplitName) -> np.ndarray:
    return np.stack([np.asarray(image) for image in source.splits[split].images()])


def digits_inside(pictures: np.ndarray) -> list[bytes]:
    """The 8x8 scan in each picture: the only window that holds all of its light and is one of the scans."""
    scans = {np.round(each * 255 / 16).astype(np.uint8).tobytes() for each in load_digits().images}
    found = []
    for picture in pictures:
        windows = np.lib.stride_tricks.sliding_window_view(picture, (8, 8)).reshape(-1, 8, 8)
        whole = [each.tobytes() for each in windows if each.sum() == picture.sum()]
        (scan,) = {each for each in whole if each in scans}
        found.append(scan)
    return found


def test_translated_digits_are_whole_digits_on_black_and_no_digit_is_in_two_splits() -> None:
    source = translated()
    inside = {split: digits_inside(images(source, split)) for split in SPLIT_NAMES}
    assert {split: len(found) for split, found in inside.items()} == {
        "train": 7182,
        "validation": 450,
        "test": 1350,
    }
    distinct = [set(inside[split]) for split in SPLIT_NAMES]
    assert [len(each) for each in distinct] == [1197, 150, 450]
    assert len(set.union(*distinct)) == 1797


def test_labels_of_translated_digits_are_those_of_the_scans() -> None:
    bunch = load_digits()
    scans = (np.round(each * 255 / 16).astype(np.uint8).tobytes() for each in bunch.images)
    labels = dict(zip(scans, bunch.target, strict=True))
    split = translated().splits["test"]
    assert split.labels is not None
    found = digits_inside(np.stack([np.asarray(each) for each in split.images()]))
    assert [labels[each] for each in found] == split.labels.tolist()


def test_every_place_is_used_about_equally() -> None:
    """The center of light of all images is that of a mean digit in the middle of the canvas."""
    light = images(translated(), "train").astype(float).sum(0)
    scan = load_digits().images.sum(0)
    center = [np.average(np.arange(8), weights=scan.sum(1 - axis)) + 3 for axis in (0, 1)]
    found = [np.average(np.arange(14), weights=light.sum(1 - axis)) for axis in (0, 1)]
    assert found == pytest.approx(center, abs=0.1)


def test_translated_digits_are_always_the_same() -> None:
    assert translated().content_hash == translated().content_hash
    assert translated().content_hash != translated(rows=15).content_hash
    first, second = images(translated(placements=1), "train"), images(translated(placements=2), "train")
    assert len(second) == 2 * len(first)


def test_a_canvas_smaller_than_a_digit_is_refused() -> None:
    with pytest.raises(ValueError, match="no images of 7 x 14 pixels; allowed: 8 x 8 or more"):
        translated(rows=7)


def test_images_of_one_group_are_placements_of_one_digit_of_that_index() -> None:
    scans = [np.round(each * 255 / 16).astype(np.uint8).tobytes() for each in load_digits().images]
    split = translated().splits["test"]
    assert split.groups is not None
    assert np.bincount(np.unique(split.groups, return_inverse=True)[1]).tolist() == [3] * 450
    found = digits_inside(np.stack([np.asarray(each) for each in split.images()]))
    assert [scans[index] for index in split.groups] == found
