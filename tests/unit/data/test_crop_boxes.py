"""Boxes of whole images, averaged."""

import numpy as np
import pytest
import torch
from PIL import Image

from isopix.core.random import generator
from isopix.data import crop_boxes
from isopix.data.augment import ScaleCrop
from isopix.data.crop_boxes import CropBoxes, average_boxes, gather_pixels, random_boxes
from isopix.data.full_resolution import FullResolution
from isopix.data.splits import Split
from tests.unit.data.pictures import noise, smooth, whole


def test_a_box_is_averaged_as_pillow_does() -> None:
    pictures = smooth(60, 90), smooth(110, 70)
    edges = [(3.0, 10.0, 47.0, 54.0), (0.0, 5.0, 70.0, 75.0)]  # left, top, right, bottom
    left, top, right, bottom = (torch.tensor(column) for column in zip(*edges, strict=True))
    result = average_boxes(whole(*pictures), CropBoxes(top, left, bottom - top, right - left), 11, 7)
    for image, picture, box in zip(result, pictures, edges, strict=True):
        expected = Image.fromarray(picture).resize((7, 11), Image.Resampling.BOX, box)
        gap = image.numpy().astype(int) - np.asarray(expected).transpose(2, 0, 1)
        assert np.abs(gap).max() <= 6  # Pillow gives a pixel on an edge to one cell, we share it


def test_a_box_of_whole_cells_is_their_exact_mean() -> None:
    picture = noise(60, 90)
    boxes = CropBoxes(*(torch.tensor([value]) for value in (8.0, 20.0, 40.0, 24.0)))
    cells = picture[8:48, 20:44].reshape(10, 4, 8, 3, 3).astype(float).mean((1, 3)).transpose(2, 0, 1)
    assert np.abs(average_boxes(whole(picture), boxes, 10, 8)[0].numpy() - cells).max() <= 0.5 + 1e-3


def test_a_box_between_pixels_shares_them() -> None:
    picture = np.zeros((4, 4, 3), dtype=np.uint8)
    picture[:, 2:] = 100
    boxes = CropBoxes(*(torch.tensor([value]) for value in (0.0, 1.5, 1.0, 1.0)))
    assert average_boxes(whole(picture), boxes, 1, 1).flatten().tolist() == [50, 50, 50]


def test_boxes_have_the_scale_of_the_paper_and_reach_every_place() -> None:
    wide = whole(*([noise(100, 150)] * 2000))
    sides = torch.randint(256, 385, (2000,), generator=generator(0, "sides"))
    boxes = random_boxes(wide, 32, 32, scale=224 / sides, generator=generator(0, "boxes"))
    assert torch.allclose(boxes.height, 100 * 224 / sides)
    assert torch.equal(boxes.height, boxes.width)
    right, bottom = boxes.left + boxes.width, boxes.top + boxes.height
    assert (boxes.left.min(), right.max()) == pytest.approx((0, 150), abs=1)
    assert (boxes.top.min(), bottom.max()) == pytest.approx((0, 100), abs=1)


def test_long_images_cost_no_more_than_square_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = []

    def counted(wide: FullResolution, row: torch.Tensor, col: torch.Tensor) -> torch.Tensor:
        block = gather_pixels(wide, row, col)
        blocks.append(block.shape)
        return block

    monkeypatch.setattr(crop_boxes, "gather_pixels", counted)
    wide = whole(smooth(110, 3000), smooth(3000, 110))
    split = Split(torch.zeros(2, 3, 32, 32, dtype=torch.uint8), None, wide)
    for step in range(8):
        ScaleCrop().sample(split, torch.tensor([0, 1] * 8), generator(0, "augment", step))
    assert max(max(shape[2:]) for shape in blocks) <= 110 * 224 / 256 + 2


def test_a_box_far_along_a_long_image_is_the_exact_mean() -> None:
    picture = noise(110, 3000)
    boxes = CropBoxes(*(torch.tensor([value]) for value in (8.0, 2900.0, 96.0, 96.0)))
    cells = picture[8:104, 2900:2996].reshape(32, 3, 32, 3, 3).astype(float).mean((1, 3)).transpose(2, 0, 1)
    assert np.abs(average_boxes(whole(picture), boxes, 32, 32)[0].numpy() - cells).max() <= 0.5 + 1e-3
