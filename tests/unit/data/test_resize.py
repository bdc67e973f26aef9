"""The box and its resizing."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from isopix.data.resize import crop_and_resize
from PIL import Image

from isopix.data.preprocess import CropPosition, crop_box, resize_and_crop, resize_shorter_side, to_chw

SIDES = st.integers(1, 300)
PLACES = st.none() | st.builds(CropPosition, st.floats(0, 0.999), st.floats(0, 0.999))


def _noise(width: int, height: int) -> Image.Image:
    return Image.fromarray(np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8))


@given(SIDES, SIDES, SIDES, SIDES, PLACES)
def test_no_crop_changes_the_aspect_ratio(
    w: int, h: int, rows: int, cols: int, place: CropPosition | None
) -> None:
    left, top, right, bottom = crop_box(w, h, rows, cols, place)
    assert 0 <= left < right <= w
    assert 0 <= top < bottom <= h
    assert (right - left) / cols == pytest.approx((bottom - top) / rows)


def test_random_crops_reach_both_ends() -> None:
    lefts = {crop_box(7, 4, 8, 8, CropPosition(0.0, across / 100))[0] for across in range(100)}
    assert lefts == {0, 1, 2, 3}


def test_an_image_that_fits_is_not_changed() -> None:
    image = _noise(48, 32)
    for resample in ("area", "bilinear", "bicubic"):
        assert np.array_equal(crop_and_resize(image, 32, 48, resample, None), to_chw(image))


def test_area_is_the_mean_of_each_box() -> None:
    image = _noise(12, 8)
    boxes = to_chw(image).reshape(3, 4, 2, 6, 2).mean((2, 4))
    assert (
        np.abs(crop_and_resize(image, 4, 6, "area", None) - boxes).max() <= 1
    )  # Pillow rounds after each axis


def test_area_repeats_pixels_when_it_enlarges() -> None:
    image = _noise(8, 8)
    assert np.array_equal(
        crop_and_resize(image, 32, 32, "area", None), to_chw(image).repeat(4, 1).repeat(4, 2)
    )


def test_fitting_equals_scaling_the_shorter_side_and_cropping() -> None:
    image = _noise(120, 60)
    cropped = image.resize((64, 32), Image.Resampling.BICUBIC).crop((16, 0, 48, 32))
    assert np.array_equal(crop_and_resize(image, 32, 32, "bicubic", None), to_chw(cropped))


@pytest.mark.parametrize(
    ("size", "shape"), [((200, 100), (3, 50, 100)), ((100, 202), (3, 101, 50)), ((40, 30), (3, 30, 40))]
)
def test_full_resolution_images_shrink_by_their_shorter_side_and_never_grow(
    size: tuple[int, int], shape: tuple[int, int, int]
) -> None:
    assert resize_shorter_side(_noise(*size), 50).shape == shape


def test_a_fraction_of_the_center_is_resizing_and_then_cropping() -> None:
    """timm's crop_pct: the shorter side to 20 pixels, then 16 of them."""
    draw = np.random.default_rng(0)
    small = Image.fromarray(draw.integers(0, 256, (7, 9, 3), dtype=np.uint8))
    image = small.resize((90, 70), Image.Resampling.BICUBIC)
    whole = image.resize((round(90 * 20 / 70), 20), Image.Resampling.BICUBIC)
    left = (whole.width - 16) // 2
    reference = to_chw(whole.crop((left, 2, left + 16, 18))).astype(int)
    found = crop_and_resize(image, 16, 16, "bicubic", None, fraction=0.8)
    assert np.abs(found - reference).mean() < 4
    assert crop_box(90, 70, 16, 16, None, fraction=0.8) == (17, 7, 73, 63)


@pytest.mark.parametrize(
    ("size", "shape", "fraction", "resized", "corner"),
    [
        ((97, 128), (16, 16), 0.8, (20, 26), (2, 5)),  # 128 * 20 / 97 = 26.4
        ((128, 97), (16, 16), 0.8, (26, 20), (5, 2)),
        ((101, 75), (16, 16), 1.0, (21, 16), (2, 0)),  # an odd margin
        ((10, 7), (16, 16), 0.9, (24, 17), (4, 0)),  # 16 / 0.9 = 17.8, enlarged
        ((90, 70), (8, 16), 1.0, (16, 12), (0, 2)),
        ((60, 90), (24, 6), 0.5, (32, 48), (13, 12)),
    ],
)
def test_resizing_before_cropping_rounds_both_sides_down(
    size: tuple[int, int],
    shape: tuple[int, int],
    fraction: float,
    resized: tuple[int, int],
    corner: tuple[int, int],
) -> None:
    image, (left, top), (rows, cols) = _noise(*size), corner, shape
    whole = image.resize(resized, Image.Resampling.BICUBIC)
    reference = to_chw(whole.crop((left, top, left + cols, top + rows)))
    assert np.array_equal(resize_and_crop(image, rows, cols, "bicubic", fraction=fraction), reference)


def test_an_image_that_would_be_resized_to_too_many_pixels_is_refused() -> None:
    image = Image.new("RGB", (4000, 1))
    assert crop_and_resize(image, 224, 224, "bilinear", None).shape == (3, 224, 224)
    with pytest.raises(ValueError, match="4000x1 pixels, which would be resized to 896000x224"):
        resize_and_crop(image, 224, 224, "bilinear")
