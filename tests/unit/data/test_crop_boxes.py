"""Boxes of whole images, averaged."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils._python_dispatch import TorchDispatchMode

from isopix.core.random import generator
from isopix.core.types import Images
from isopix.data.augment import CropBoxes, average_each, average_together, random_boxes
from isopix.data.store import FullResolution
from tests.unit.data.pictures import noise, smooth, whole

Average = Callable[[FullResolution, CropBoxes, int, int], Images]
AVERAGES = pytest.mark.parametrize("average", [average_each, average_together])


class _LargestFloats(TorchDispatchMode):
    """Notes the most floating-point numbers in one result of an operation."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        result = func(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor) and result.is_floating_point():
            self.count = max(self.count, result.numel())
        return result


@AVERAGES
def test_a_box_is_averaged_as_pillow_does(average: Average) -> None:
    pictures = smooth(60, 90), smooth(110, 70)
    edges = [(3.0, 10.0, 47.0, 54.0), (0.0, 5.0, 70.0, 75.0)]  # left, top, right, bottom
    left, top, right, bottom = (torch.tensor(column) for column in zip(*edges, strict=True))
    result = average(whole(*pictures), CropBoxes(top, left, bottom - top, right - left), 11, 7)
    for image, picture, box in zip(result, pictures, edges, strict=True):
        expected = Image.fromarray(picture).resize((7, 11), Image.Resampling.BOX, box)
        gap = image.numpy().astype(int) - np.asarray(expected).transpose(2, 0, 1)
        assert np.abs(gap).max() <= 6  # Pillow gives a pixel on an edge to one cell, we share it


@AVERAGES
@pytest.mark.parametrize("left", [20, 2900])
def test_a_box_of_whole_cells_is_their_exact_mean(average: Average, left: int) -> None:
    picture = noise(60, 3000)
    boxes = CropBoxes(*(torch.tensor([value]) for value in (8.0, float(left), 40.0, 24.0)))
    cells = picture[8:48, left : left + 24].reshape(10, 4, 8, 3, 3).astype(float).mean((1, 3))
    found = average(whole(picture), boxes, 10, 8)[0].numpy()
    assert np.abs(found - cells.transpose(2, 0, 1)).max() <= 0.5 + 1e-3


@AVERAGES
def test_a_box_between_pixels_shares_them(average: Average) -> None:
    picture = np.zeros((4, 4, 3), dtype=np.uint8)
    picture[:, 2:] = 100
    boxes = CropBoxes(*(torch.tensor([value]) for value in (0.0, 1.5, 1.0, 1.0)))
    assert average(whole(picture), boxes, 1, 1).flatten().tolist() == [50, 50, 50]


def test_boxes_have_the_scale_of_the_paper_and_reach_every_place() -> None:
    wide = whole(*([noise(100, 150)] * 2000))
    sides = torch.randint(256, 385, (2000,), generator=generator(0, "sides"))
    boxes = random_boxes(wide, 32, 32, scale=224 / sides, generator=generator(0, "boxes"))
    assert torch.allclose(boxes.height, 100 * 224 / sides)
    assert torch.equal(boxes.height, boxes.width)
    right, bottom = boxes.left + boxes.width, boxes.top + boxes.height
    assert (boxes.left.min(), right.max()) == pytest.approx((0, 150), abs=1)
    assert (boxes.top.min(), bottom.max()) == pytest.approx((0, 100), abs=1)


@AVERAGES
def test_long_images_cost_no_more_than_square_ones(average: Average) -> None:
    full = whole(smooth(110, 3000), smooth(3000, 110))
    for step in range(8):
        boxes = random_boxes(full, 32, 32, scale=torch.full((2,), 0.7), generator=generator(0, "boxes", step))
        with _LargestFloats() as largest:
            average(full, boxes, 32, 32)
        assert largest.count <= 2 * 3 * 80 * 80


@pytest.mark.parametrize(("rows", "cols"), [(32, 32), (7, 11), (1, 1), (60, 50), (200, 3)])
def test_image_by_image_is_as_all_together(rows: int, cols: int) -> None:
    full = whole(noise(60, 90), noise(110, 70), smooth(33, 400), noise(5, 5))
    for step, scale in enumerate((0.6, 0.8, 1.0)):
        draws = generator(0, "boxes", step)
        boxes = random_boxes(full, rows, cols, scale=torch.full((4,), scale), generator=draws)
        gap = average_each(full, boxes, rows, cols).int() - average_together(full, boxes, rows, cols).int()
        gap = gap.abs()
        assert gap.max() <= 1  # where a mean lies between two levels
        assert gap.float().mean() < 1e-3
