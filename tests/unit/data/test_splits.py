"""Which images are held out."""

from fractions import Fraction

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from isopix.data.splits import FullResolution, Split, held_out_indices, split_sizes
from tests.unit.data.refusal import refusal


@pytest.mark.parametrize(
    ("count", "fraction", "sizes"),
    [
        (50_000, 0.1, (45_000, 5_000)),
        (1_281_167, 0.04, (1_229_920, 51_247)),
        (10, 0.3, (7, 3)),
        (10, 0.9, (1, 9)),
        (1, 0.1, (0, 1)),
        (7, 0.0, (7, 0)),
    ],
)
def test_split_sizes_are_those_of_the_paper(count: int, fraction: float, sizes: tuple[int, int]) -> None:
    assert split_sizes(count, fraction) == sizes


@given(st.integers(0, 10**7), st.integers(0, 1000))
def test_split_sizes_follow_the_floor_rule_in_exact_arithmetic(count: int, thousandths: int) -> None:
    kept, held = split_sizes(count, thousandths / 1000)
    assert kept + held == count
    assert 0 <= count * (1 - Fraction(thousandths, 1000)) - kept < 1


def test_every_image_is_held_out_or_stays() -> None:
    stay, validation, test = held_out_indices(100, (10, 20), seed=3)
    assert (len(stay), len(validation), len(test)) == (70, 10, 20)
    assert torch.equal(torch.cat([stay, validation, test]).sort().values, torch.arange(100))


def test_held_out_images_follow_the_seed() -> None:
    assert torch.equal(held_out_indices(100, (10,), seed=1)[1], held_out_indices(100, (10,), seed=1)[1])
    assert not torch.equal(held_out_indices(100, (10,), seed=1)[1], held_out_indices(100, (10,), seed=2)[1])


def test_images_that_stay_keep_their_order() -> None:
    assert all(bool((part.diff() > 0).all()) for part in held_out_indices(100, (10, 20), seed=3))


def test_holding_out_everything_is_rejected() -> None:
    message = (
        "2 training images are too few to hold out 2 of them; give more, or pretrain with data.holdout=0"
    )
    assert refusal(held_out_indices, 2, (1, 1), 0) == message


def _wide_split(sizes: list[tuple[int, int]], first: int) -> Split:
    heights, widths = (torch.tensor(column) for column in zip(*sizes, strict=True))
    areas = 3 * heights * widths
    pixels = torch.arange(first, first + int(areas.sum())).to(torch.uint8)
    images = torch.zeros(len(sizes), 3, 2, 2, dtype=torch.uint8)
    return Split(
        images, torch.arange(len(sizes)), FullResolution(pixels, areas.cumsum(0) - areas, heights, widths)
    )


def test_joined_splits_keep_every_whole_picture() -> None:
    one, other = _wide_split([(2, 3), (1, 2)], first=0), _wide_split([(2, 2)], first=100)
    both = one.concat(other).select(torch.tensor([2, 0]))
    assert both.full_resolution is not None
    start, height, width = (
        int(values[0])
        for values in (both.full_resolution.starts, both.full_resolution.heights, both.full_resolution.widths)
    )
    assert both.full_resolution.pixels[start : start + 3 * height * width].tolist() == list(range(100, 112))
    assert both.labels is not None
    assert both.labels.tolist() == [0, 0]


SHAPES = [(2, 3), (1, 2), (2, 2), (3, 1)]  # 18, 6, 12 and 9 bytes


def _images(wide: FullResolution) -> list[list[int]]:
    return [
        wide.pixels[start : start + size].tolist()
        for start, size in zip(wide.starts.tolist(), wide.sizes.tolist(), strict=True)
    ]


@pytest.mark.parametrize("index", [[0, 1, 2, 3], [1, 2], [0, 2, 3], [3, 0, 1, 1], []])
def test_packing_keeps_the_images_and_nothing_else(index: list[int]) -> None:
    split = _wide_split(SHAPES, first=0).select(torch.tensor(index, dtype=torch.int64))
    assert split.full_resolution is not None
    packed = split.full_resolution.packed(torch.device("cpu"))
    assert _images(packed) == _images(split.full_resolution)
    assert len(packed.pixels) == split.full_resolution.nbytes


def test_part_of_a_split_counts_only_its_own_images() -> None:
    split = _wide_split(SHAPES, first=0)
    assert split.nbytes == 4 * 12 + 45
    assert split.first(2).nbytes == 2 * 12 + 24
    assert split.select(torch.tensor([1, 3])).nbytes == 2 * 12 + 15


def test_a_device_gets_the_pixels_of_the_split_and_no_sizes() -> None:
    wide = _wide_split(SHAPES, first=0).first(2).to(torch.device("meta")).full_resolution
    assert wide is not None
    assert (wide.pixels.device.type, len(wide.pixels)) == ("meta", 24)
    assert {sizes.device.type for sizes in (wide.starts, wide.heights, wide.widths)} == {"cpu"}


def test_on_the_device_where_they_are_images_are_shared() -> None:
    split = _wide_split(SHAPES, first=0)
    moved = split.first(2).to(torch.device("cpu"))
    assert split.full_resolution is not None
    assert moved.full_resolution is not None
    assert moved.full_resolution.pixels.data_ptr() == split.full_resolution.pixels.data_ptr()
