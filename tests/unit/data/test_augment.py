"""The paper's augmentations, and boxes of whole images, averaged."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from PIL import Image

from isopix.core.random import generator
from isopix.core.types import Images
from isopix.data.augment import (
    AugmentationSpec,
    CropBoxes,
    InceptionCrop,
    NoAugmentation,
    PadCropFlip,
    ScaleCrop,
    average_each,
    average_together,
    pad_crop_flip,
    random_boxes,
)
from isopix.data.patch_augment import RandomPatchAugment
from isopix.data.rand_augment import RandAugment
from isopix.data.splits import Split
from isopix.data.store import FileImages
from tests.golden.values import check_golden
from tests.peak_memory import LargestTensor
from tests.unit.data.shards import noise, smooth, whole

IMAGES = torch.randint(0, 256, (64, 3, 8, 10), generator=generator(0, "test"), dtype=torch.uint8)


@pytest.mark.parametrize("seed", range(2))
def test_augmented_images_are_as_ever(seed: int) -> None:
    given, order = whole(noise(60, 90), noise(110, 70), smooth(33, 400)), torch.tensor([2, 0, 1, 0])
    split = Split(IMAGES[:3], None, full_resolution=given)
    specs = [ScaleCrop(min_side=60, max_side=120, crop=50, flip=0.5), PadCropFlip(pad=2)]
    found = [each.sample(split, order, generator(seed, "augment")) for each in specs]
    strong = RandAugment(base=InceptionCrop(min_area=0.2), operations=4, erase=0.5)
    found.append(RandomPatchAugment().apply(IMAGES[..., :8], 4, generator(seed, "augment")))
    found.append(strong.sample(split, order, generator(seed, "augment")))
    check_golden("augmented", str(seed), found)


def test_every_result_is_a_window_of_the_reflected_image_or_its_mirror() -> None:
    padded = torch.nn.functional.pad(IMAGES.float(), (4, 4, 4, 4), mode="reflect").to(torch.uint8)
    seen = set()
    images = pad_crop_flip(IMAGES, pad=4, flip=0.5, generator=generator(0, "augment"))
    for image, larger in zip(images, padded, strict=True):
        windows = {
            (top, left, mirrored)
            for top in range(9)
            for left in range(9)
            for mirrored in (False, True)
            if torch.equal(image.flip(2) if mirrored else image, larger[:, top : top + 8, left : left + 10])
        }
        assert len(windows) == 1
        seen |= windows
    tops, lefts, mirrors = zip(*seen, strict=True)
    assert (min(tops), max(tops), min(lefts), max(lefts)) == (0, 8, 0, 8)
    assert 0.3 < sum(mirrors) / len(mirrors) < 0.7


def test_a_crop_is_flipped_with_the_chance_that_is_given_and_is_the_same_crop() -> None:
    split = Split(torch.zeros(200, 3, 6, 9, dtype=torch.uint8), None, whole(*([noise(60, 90)] * 200)))
    plain, half, sure = (
        ScaleCrop(flip=flip).sample(split, torch.arange(200), generator(0, "augment"))
        for flip in (0.0, 0.5, 1.0)
    )
    assert torch.equal(sure, plain.flip(3))
    flipped = (half == sure).flatten(1).all(1)
    assert torch.equal(~flipped, (half == plain).flatten(1).all(1))
    assert float(flipped.float().mean()) == pytest.approx(0.5, abs=0.1)


def test_crops_have_the_scale_of_the_paper_and_reach_every_place() -> None:
    across = np.broadcast_to(np.arange(200, dtype=np.uint8), (200, 200))
    ramp = np.stack([across, across.T, across], axis=2)  # red rises by 1 a pixel, green downwards
    split = Split(torch.zeros(500, 3, 10, 10, dtype=torch.uint8), None, whole(*([ramp] * 500)))
    images = ScaleCrop().sample(split, torch.arange(500), generator(0, "augment")).float()
    for first, last in ((images[:, 0, 0, 0], images[:, 0, 0, -1]), (images[:, 1, 0, 0], images[:, 1, -1, 0])):
        boxes = (last - first) * 10 / 9
        assert boxes.min() == pytest.approx(200 * 224 / 384, abs=2)
        assert boxes.max() == pytest.approx(200 * 224 / 256, abs=2)
        assert (first - boxes / 20).min() == pytest.approx(0, abs=2)
        assert (last + boxes / 20).max() == pytest.approx(200, abs=2)


@pytest.mark.parametrize("augmentation", [NoAugmentation(), PadCropFlip(), ScaleCrop(), ScaleCrop(flip=0.5)])
def test_a_batch_is_drawn_without_asking_the_device_for_a_number(augmentation: AugmentationSpec) -> None:
    split = Split(IMAGES[:2], None, whole(noise(60, 90), noise(110, 70))).to(torch.device("meta"))
    images = augmentation.sample(split, torch.tensor([1, 0, 1]), generator(0, "augment"))
    assert (images.shape, images.device.type) == ((3, 3, 8, 10), "meta")  # meta has no numbers to give


# Boxes of whole images, averaged.

Average = Callable[[FileImages, CropBoxes, int, int], Images]
AVERAGES = pytest.mark.parametrize("average", [average_each, average_together])


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
def test_long_images_cost_no_more_than_square_ones(average: Average) -> None:
    full = whole(smooth(110, 3000), smooth(3000, 110))
    for step in range(8):
        boxes = random_boxes(full, 32, 32, scale=torch.full((2,), 0.7), generator=generator(0, "boxes", step))
        with LargestTensor() as largest:
            average(full, boxes, 32, 32)
        assert largest.elements <= 2 * 3 * 80 * 80


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
