"""The stream of prepared pictures."""

from dataclasses import replace

import numpy as np
import pytest

from isopix.data.preprocess import IMAGES_PER_CHUNK, PreprocessConfig, PreprocessedImage, preprocess
from isopix.data.sources.base import SourceSplit
from tests.unit.data.shards import encoded

HOW = PreprocessConfig(rows=8, cols=8, resample="area", crop_seed=None)


def _part(pictures: list[bytes]) -> SourceSplit:
    return SourceSplit(len(pictures), lambda start, stop: iter(pictures[start:stop]), str, None)


def test_images_keep_their_order_across_threads() -> None:
    pictures = [encoded(i) for i in range(3 * IMAGES_PER_CHUNK + 1)]
    together = list(preprocess(_part(pictures), HOW))
    alone = [next(preprocess(_part([picture]), HOW)) for picture in pictures]
    assert all(
        isinstance(one, PreprocessedImage)
        and isinstance(other, PreprocessedImage)
        and np.array_equal(one.image, other.image)
        for one, other in zip(together, alone, strict=True)
    )


def test_a_bad_image_gives_its_reason_in_its_place() -> None:
    results = list(preprocess(_part([encoded(0), b"", encoded(1)]), HOW))
    assert [isinstance(result, PreprocessedImage) for result in results] == [True, False, True]
    assert results[1] == "empty file"


def test_warnings_of_pillow_are_reasons() -> None:
    tiff = b"II*\x00\x08\x00\x00\x00\x01\x00\x00\x01\x03\x00\x05\x00\x00\x00\x10\x00\x00\x00\x00\x00\x00\x00"
    (result,) = preprocess(_part([tiff]), HOW)
    assert isinstance(result, str)


def test_random_crops_follow_the_seed() -> None:
    how = [PreprocessConfig(rows=4, cols=8, resample="area", crop_seed=seed) for seed in (1, 1, 2)]
    results = [
        [
            p.image
            for p in preprocess(_part([encoded(i) for i in range(9)]), each)
            if isinstance(p, PreprocessedImage)
        ]
        for each in how
    ]
    assert np.array_equal(results[0], results[1])
    assert not np.array_equal(results[0], results[2])


@pytest.mark.parametrize("side", [None, 4, 100])
def test_full_resolution_images_are_kept_only_if_asked_for(side: int | None) -> None:
    how = PreprocessConfig(rows=4, cols=4, resample="area", crop_seed=None, full_side=side)
    (result,) = preprocess(_part([encoded(0)]), how)
    assert isinstance(result, PreprocessedImage)
    assert (None if result.full is None else result.full.shape) == (
        None if side is None else (3, min(side, 8), min(side, 8))
    )


def test_fuzzed_files_never_raise() -> None:
    draw = np.random.default_rng(0)
    pictures = []
    for i in range(500):
        data = bytearray(encoded(i % 7))
        for _ in range(draw.integers(1, 8)):
            data[draw.integers(len(data))] = draw.integers(256)
        pictures.append(bytes(data[: draw.integers(1, len(data) + 1)]))
    results = list(preprocess(_part(pictures), HOW))
    assert len(results) == 500
    assert all("\n" not in result for result in results if isinstance(result, str))


def test_a_jpeg_is_decoded_in_full_before_it_is_squashed_and_larger_for_smaller_crops() -> None:
    assert replace(HOW, squash=True).min_side > 10**9
    assert replace(HOW, resize_first=True).min_side > 10**9
    assert (HOW.min_side, replace(HOW, crop_fraction=0.25).min_side) == (16, 64)


def test_later_settings_leave_the_cache_of_earlier_versions_valid() -> None:
    own = {"rows": 8, "cols": 8, "resample": "area", "crop_seed": None, "full_side": None}
    assert HOW.identity() == own
    later = {"squash": True, "crop_fraction": 0.5, "resize_first": True}
    assert replace(HOW, **later).identity() == own | later
