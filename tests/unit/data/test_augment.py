"""The paper's augmentations."""

import numpy as np
import pytest
import torch
from PIL import Image

from isopix.core.random import generator
from isopix.data import augment
from isopix.data.augment import (
    AugmentationSpec,
    CropBoxes,
    NoAugmentation,
    PadCropFlip,
    ScaleCrop,
    average_boxes,
    gather_pixels,
    pad_crop_flip,
    random_boxes,
)
from isopix.data.full_resolution import FullResolution
from isopix.data.splits import Split
from tests.unit.data.refusal import refusal

IMAGES = torch.randint(0, 256, (64, 3, 8, 10), generator=generator(0, "test"), dtype=torch.uint8)
ALL = torch.arange(64)


def _augmented(pad: int, flip: float, step: int = 0) -> torch.Tensor:
    return pad_crop_flip(IMAGES, pad=pad, flip=flip, generator=generator(0, "augment", step))


def test_without_pad_and_flip_nothing_changes() -> None:
    assert torch.equal(_augmented(0, 0.0), IMAGES)


def test_a_sure_flip_mirrors_every_image() -> None:
    assert torch.equal(_augmented(0, 1.0), IMAGES.flip(3))


def test_every_result_is_a_window_of_the_reflected_image_or_its_mirror() -> None:
    padded = torch.nn.functional.pad(IMAGES.float(), (4, 4, 4, 4), mode="reflect").to(torch.uint8)
    seen = set()
    for image, whole in zip(_augmented(4, 0.5), padded, strict=True):
        windows = {
            (top, left, mirrored)
            for top in range(9)
            for left in range(9)
            for mirrored in (False, True)
            if torch.equal(image.flip(2) if mirrored else image, whole[:, top : top + 8, left : left + 10])
        }
        assert len(windows) == 1
        seen |= windows
    tops, lefts, mirrors = zip(*seen, strict=True)
    assert (min(tops), max(tops), min(lefts), max(lefts)) == (0, 8, 0, 8)
    assert 0.3 < sum(mirrors) / len(mirrors) < 0.7


def test_augmentation_is_a_function_of_seed_and_step() -> None:
    assert torch.equal(_augmented(4, 0.5, step=3), _augmented(4, 0.5, step=3))
    assert not torch.equal(_augmented(4, 0.5, step=3), _augmented(4, 0.5, step=4))


def test_plain_takes_the_images_themselves() -> None:
    assert torch.equal(NoAugmentation().sample(Split(IMAGES), ALL[5:9], generator(0, "augment")), IMAGES[5:9])


@pytest.mark.parametrize(("rows", "cols"), [(4, 32), (32, 3)])
def test_a_pad_that_cannot_be_reflected_is_rejected(rows: int, cols: int) -> None:
    message = f"pad 4 does not fit images of {rows}x{cols}; allowed: below {min(rows, cols)}"
    assert refusal(PadCropFlip().source_side, rows, cols) == message


def _wide(*pictures: np.ndarray) -> FullResolution:
    heights, widths = (torch.tensor([picture.shape[axis] for picture in pictures]) for axis in (0, 1))
    pixels = np.concatenate([picture.transpose(2, 0, 1).reshape(-1) for picture in pictures])
    areas = 3 * heights * widths
    return FullResolution(torch.from_numpy(pixels), areas.cumsum(0) - areas, heights, widths)


def _noise(height: int, width: int) -> np.ndarray:
    return np.random.default_rng(height).integers(0, 256, (height, width, 3), dtype=np.uint8)


def _smooth(height: int, width: int) -> np.ndarray:
    down, across, channel = np.ogrid[:height, :width, :3]
    return (127.5 + 127 * np.sin(down / 9 + across / 7 + channel)).astype(np.uint8)


def test_a_box_is_averaged_as_pillow_does() -> None:
    pictures = _smooth(60, 90), _smooth(110, 70)
    edges = [(3.0, 10.0, 47.0, 54.0), (0.0, 5.0, 70.0, 75.0)]  # left, top, right, bottom
    left, top, right, bottom = (torch.tensor(column) for column in zip(*edges, strict=True))
    result = average_boxes(_wide(*pictures), CropBoxes(top, left, bottom - top, right - left), 11, 7)
    for image, picture, box in zip(result, pictures, edges, strict=True):
        expected = Image.fromarray(picture).resize((7, 11), Image.Resampling.BOX, box)
        gap = image.numpy().astype(int) - np.asarray(expected).transpose(2, 0, 1)
        assert np.abs(gap).max() <= 6  # Pillow gives a pixel on an edge to one cell, we share it


def test_a_box_of_whole_cells_is_their_exact_mean() -> None:
    picture = _noise(60, 90)
    boxes = CropBoxes(*(torch.tensor([value]) for value in (8.0, 20.0, 40.0, 24.0)))
    cells = picture[8:48, 20:44].reshape(10, 4, 8, 3, 3).astype(float).mean((1, 3)).transpose(2, 0, 1)
    assert np.abs(average_boxes(_wide(picture), boxes, 10, 8)[0].numpy() - cells).max() <= 0.5 + 1e-3


def test_a_box_between_pixels_shares_them() -> None:
    picture = np.zeros((4, 4, 3), dtype=np.uint8)
    picture[:, 2:] = 100
    boxes = CropBoxes(*(torch.tensor([value]) for value in (0.0, 1.5, 1.0, 1.0)))
    assert average_boxes(_wide(picture), boxes, 1, 1).flatten().tolist() == [50, 50, 50]


def test_boxes_have_the_scale_of_the_paper_and_reach_every_place() -> None:
    wide = _wide(*([_noise(100, 150)] * 2000))
    sides = torch.randint(256, 385, (2000,), generator=generator(0, "sides"))
    boxes = random_boxes(wide, 32, 32, scale=224 / sides, generator=generator(0, "boxes"))
    assert torch.allclose(boxes.height, 100 * 224 / sides)
    assert torch.equal(boxes.height, boxes.width)
    right, bottom = boxes.left + boxes.width, boxes.top + boxes.height
    assert (boxes.left.min(), right.max()) == pytest.approx((0, 150), abs=1)
    assert (boxes.top.min(), bottom.max()) == pytest.approx((0, 100), abs=1)


def test_scale_crop_gives_the_resolution_of_the_images() -> None:
    split = Split(torch.zeros(2, 3, 6, 9, dtype=torch.uint8), None, _wide(_noise(60, 90), _noise(110, 70)))
    draws = [
        ScaleCrop().sample(split, torch.tensor([1, 0, 1]), generator(0, "augment", step))
        for step in (0, 0, 1)
    ]
    assert draws[0].shape == (3, 3, 6, 9)
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])


def test_a_crop_is_flipped_with_the_chance_that_is_given_and_is_the_same_crop() -> None:
    split = Split(torch.zeros(200, 3, 6, 9, dtype=torch.uint8), None, _wide(*([_noise(60, 90)] * 200)))
    plain, half, sure = (
        ScaleCrop(flip=flip).sample(split, torch.arange(200), generator(0, "augment"))
        for flip in (0.0, 0.5, 1.0)
    )
    assert torch.equal(sure, plain.flip(3))
    flipped = (half == sure).flatten(1).all(1)
    assert torch.equal(~flipped, (half == plain).flatten(1).all(1))
    assert float(flipped.float().mean()) == pytest.approx(0.5, abs=0.1)


def test_shorter_sides_are_drawn_from_the_range_of_the_paper() -> None:
    ramp = np.broadcast_to(np.arange(200, dtype=np.uint8)[None, :, None], (200, 200, 3))
    split = Split(torch.zeros(500, 3, 10, 10, dtype=torch.uint8), None, _wide(*([ramp] * 500)))
    images = ScaleCrop().sample(split, torch.arange(500), generator(0, "augment")).float()
    boxes = (images[:, 0, 0, -1] - images[:, 0, 0, 0]) * 10 / 9  # the ramp rises by 1 a pixel
    assert boxes.min() == pytest.approx(200 * 224 / 384, abs=2)
    assert boxes.max() == pytest.approx(200 * 224 / 256, abs=2)


def test_long_images_cost_no_more_than_square_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = []

    def counted(wide: FullResolution, row: torch.Tensor, col: torch.Tensor) -> torch.Tensor:
        block = gather_pixels(wide, row, col)
        blocks.append(block.shape)
        return block

    monkeypatch.setattr(augment, "gather_pixels", counted)
    wide = _wide(_smooth(110, 3000), _smooth(3000, 110))
    split = Split(torch.zeros(2, 3, 32, 32, dtype=torch.uint8), None, wide)
    for step in range(8):
        ScaleCrop().sample(split, torch.tensor([0, 1] * 8), generator(0, "augment", step))
    assert max(max(shape[2:]) for shape in blocks) <= 110 * 224 / 256 + 2


def test_a_box_far_along_a_long_image_is_the_exact_mean() -> None:
    picture = _noise(110, 3000)
    boxes = CropBoxes(*(torch.tensor([value]) for value in (8.0, 2900.0, 96.0, 96.0)))
    cells = picture[8:104, 2900:2996].reshape(32, 3, 32, 3, 3).astype(float).mean((1, 3)).transpose(2, 0, 1)
    assert np.abs(average_boxes(_wide(picture), boxes, 32, 32)[0].numpy() - cells).max() <= 0.5 + 1e-3


@pytest.mark.parametrize("augmentation", [NoAugmentation(), PadCropFlip(), ScaleCrop(), ScaleCrop(flip=0.5)])
def test_a_batch_is_drawn_without_asking_the_device_for_a_number(augmentation: AugmentationSpec) -> None:
    split = Split(IMAGES[:2], None, _wide(_noise(60, 90), _noise(110, 70))).to(torch.device("meta"))
    images = augmentation.sample(split, torch.tensor([1, 0, 1]), generator(0, "augment"))
    assert (images.shape, images.device.type) == ((3, 3, 8, 10), "meta")  # meta has no numbers to give


def test_the_tightest_crop_still_averages_two_pixels_into_one() -> None:
    assert ScaleCrop().source_side(32, 48) * 224 / 384 >= 2 * 48


@pytest.mark.parametrize("augmentation", [PadCropFlip, ScaleCrop])
def test_an_impossible_chance_of_a_flip_is_rejected(augmentation: type) -> None:
    assert refusal(lambda: augmentation(flip=1.5)) == "flip is 1.5; allowed: 0 to 1"


def test_a_crop_larger_than_the_image_is_rejected() -> None:
    message = "crop 300, min_side 256, max_side 384; allowed: crop <= min_side <= max_side"
    assert refusal(lambda: ScaleCrop(crop=300)) == message
