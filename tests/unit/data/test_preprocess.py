"""The stream of preprocessed images, and the box and resizing of each."""

import os
import signal
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from isopix.data.dataset import DataConfig
from isopix.data.preprocess import (
    IMAGES_PER_CHUNK,
    CropPosition,
    PreprocessedImage,
    crop_box,
    map_images,
    min_side,
    preprocess,
    resize,
    resize_shorter_side,
    to_chw,
)
from isopix.data.sources.base import SourceSplit
from isopix.storage import provenance
from tests.unit.data.shards import encoded

HOW = DataConfig(rows=8, cols=8)
SIDES = st.integers(1, 300)
PLACES = st.none() | st.tuples(st.floats(0, 0.999), st.floats(0, 0.999))


def _results(images: list[bytes], how: DataConfig = HOW) -> list[PreprocessedImage | str]:
    split = SourceSplit(len(images), lambda start, stop: iter(images[start:stop]), str, None)
    return list(preprocess(split, how))


def _pixels(images: list[bytes], how: DataConfig = HOW) -> list[bytes]:
    return [each.image.tobytes() for each in _results(images, how) if isinstance(each, PreprocessedImage)]


def test_a_stop_signal_waits_for_no_image_and_no_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    free, waited = threading.Event(), list[bool]()
    work = lambda *job: waited.append(not free.wait(60))  # noqa: E731
    monkeypatch.setattr(provenance, "hash_file", work)
    images = map_images(iter([b""] * 300), work, lambda job: job, kept_bytes=1)
    for start in (lambda: next(images), lambda: provenance.hash_files({"a": Path("a")})):
        threading.Timer(0.5, os.kill, [os.getpid(), signal.SIGINT]).start()
        with pytest.raises(KeyboardInterrupt):
            start()
        assert not waited
    free.set()


def test_images_keep_their_order_across_threads() -> None:
    images = [encoded(i) for i in range(3 * IMAGES_PER_CHUNK + 1)]
    assert _pixels(images) == [pixels for image in images for pixels in _pixels([image])]


def test_a_bad_image_gives_its_reason_in_its_place() -> None:
    """Warnings of Pillow are reasons, too."""
    tiff = b"II*\x00\x08\x00\x00\x00\x01\x00\x00\x01\x03\x00\x05\x00\x00\x00\x10\x00\x00\x00\x00\x00\x00\x00"
    results = _results([encoded(0), b"", tiff, encoded(1)])
    assert [isinstance(each, str) for each in results] == [False, True, True, False]
    assert results[1] == "empty file"


def test_a_jpeg_is_decoded_in_full_before_it_is_squashed_and_larger_for_smaller_crops() -> None:
    for crop in ("squash", "resized_center"):
        assert min_side(replace(HOW, crop=crop), None) > 10**9
    assert (min_side(HOW, None), min_side(replace(HOW, crop_fraction=0.25), None)) == (16, 64)


def _noise(width: int, height: int) -> Image.Image:
    return Image.fromarray(np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8))


def _resized(image: Image.Image, rows: int, cols: int, **changes: object) -> np.ndarray:
    return resize(image, replace(HOW, rows=rows, cols=cols, **changes), None)


@given(SIDES, SIDES, SIDES, SIDES, PLACES)
def test_no_crop_changes_the_aspect_ratio(
    w: int, h: int, rows: int, cols: int, place: CropPosition | None
) -> None:
    left, top, right, bottom = crop_box(w, h, rows, cols, place)
    assert 0 <= left < right <= w
    assert 0 <= top < bottom <= h
    assert (right - left) / cols == pytest.approx((bottom - top) / rows)


def test_area_is_the_mean_of_each_box_and_repeats_pixels_when_it_enlarges() -> None:
    image = _noise(12, 8)
    means = to_chw(image).reshape(3, 4, 2, 6, 2).mean((2, 4))
    assert np.abs(_resized(image, 4, 6) - means).max() <= 1  # Pillow rounds after each axis
    assert np.array_equal(_resized(image, 32, 48), to_chw(image).repeat(4, 1).repeat(4, 2))


def test_fitting_equals_scaling_the_shorter_side_and_cropping() -> None:
    image = _noise(120, 60)
    cropped = image.resize((64, 32), Image.Resampling.BICUBIC).crop((16, 0, 48, 32))
    assert np.array_equal(_resized(image, 32, 32, resample="bicubic"), to_chw(cropped))
    squashed = image.resize((32, 32), Image.Resampling.BICUBIC)
    assert np.array_equal(_resized(image, 32, 32, resample="bicubic", crop="squash"), to_chw(squashed))


def test_full_resolution_images_shrink_by_their_shorter_side_and_never_grow() -> None:
    shapes = [resize_shorter_side(_noise(*size), 50).shape for size in ((200, 100), (100, 202), (40, 30))]
    assert shapes == [(3, 50, 100), (3, 101, 50), (3, 30, 40)]


@pytest.mark.parametrize(
    ("size", "rows", "cols", "fraction", "resized", "left", "top"),
    [
        ((97, 128), 16, 16, 0.8, (20, 26), 2, 5),  # 128 * 20 / 97 = 26.4
        ((101, 75), 16, 16, 1.0, (21, 16), 2, 0),  # an odd margin
        ((10, 7), 16, 16, 0.9, (24, 17), 4, 0),  # 16 / 0.9 = 17.8, enlarged
        ((60, 90), 24, 6, 0.5, (32, 48), 13, 12),
    ],
)
def test_resizing_before_cropping_rounds_both_sides_down(size, rows, cols, fraction, resized, left, top):
    image = _noise(*size)
    whole = image.resize(resized, Image.Resampling.BICUBIC)
    reference = to_chw(whole.crop((left, top, left + cols, top + rows)))
    changes = {"resample": "bicubic", "crop": "resized_center", "crop_fraction": fraction}
    assert np.array_equal(_resized(image, rows, cols, **changes), reference)


def test_an_image_that_would_be_resized_to_too_many_pixels_is_refused() -> None:
    image = Image.new("RGB", (4000, 1))
    assert _resized(image, 224, 224).shape == (3, 224, 224)
    with pytest.raises(ValueError, match="4000x1 pixels, which would be resized to 896000x224"):
        _resized(image, 224, 224, crop="resized_center")
