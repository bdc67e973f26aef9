"""The paper's augmentations."""

import numpy as np
import pytest
import torch

from isopix.core.random import generator
from isopix.data.augment import (
    AugmentationSpec,
    NoAugmentation,
    PadCropFlip,
    ScaleCrop,
    pad_crop_flip,
)
from isopix.data.splits import Split
from tests.unit.data.pictures import noise, whole

IMAGES = torch.randint(0, 256, (64, 3, 8, 10), generator=generator(0, "test"), dtype=torch.uint8)
ALL = torch.arange(64)


def _augmented(pad: int, flip: float, step: int = 0) -> torch.Tensor:
    return pad_crop_flip(IMAGES, pad=pad, flip=flip, generator=generator(0, "augment", step))


def test_a_sure_flip_mirrors_every_image() -> None:
    assert torch.equal(_augmented(0, 1.0), IMAGES.flip(3))


def test_every_result_is_a_window_of_the_reflected_image_or_its_mirror() -> None:
    padded = torch.nn.functional.pad(IMAGES.float(), (4, 4, 4, 4), mode="reflect").to(torch.uint8)
    seen = set()
    for image, larger in zip(_augmented(4, 0.5), padded, strict=True):
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


def test_augmentation_is_a_function_of_seed_and_step() -> None:
    assert torch.equal(_augmented(4, 0.5, step=3), _augmented(4, 0.5, step=3))
    assert not torch.equal(_augmented(4, 0.5, step=3), _augmented(4, 0.5, step=4))


def test_scale_crop_gives_the_resolution_of_the_images() -> None:
    split = Split(torch.zeros(2, 3, 6, 9, dtype=torch.uint8), None, whole(noise(60, 90), noise(110, 70)))
    draws = [
        ScaleCrop().sample(split, torch.tensor([1, 0, 1]), generator(0, "augment", step))
        for step in (0, 0, 1)
    ]
    assert draws[0].shape == (3, 3, 6, 9)
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])


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


def test_shorter_sides_are_drawn_from_the_range_of_the_paper() -> None:
    ramp = np.broadcast_to(np.arange(200, dtype=np.uint8)[None, :, None], (200, 200, 3))
    split = Split(torch.zeros(500, 3, 10, 10, dtype=torch.uint8), None, whole(*([ramp] * 500)))
    images = ScaleCrop().sample(split, torch.arange(500), generator(0, "augment")).float()
    boxes = (images[:, 0, 0, -1] - images[:, 0, 0, 0]) * 10 / 9  # the ramp rises by 1 a pixel
    assert boxes.min() == pytest.approx(200 * 224 / 384, abs=2)
    assert boxes.max() == pytest.approx(200 * 224 / 256, abs=2)


@pytest.mark.parametrize("augmentation", [NoAugmentation(), PadCropFlip(), ScaleCrop(), ScaleCrop(flip=0.5)])
def test_a_batch_is_drawn_without_asking_the_device_for_a_number(augmentation: AugmentationSpec) -> None:
    split = Split(IMAGES[:2], None, whole(noise(60, 90), noise(110, 70))).to(torch.device("meta"))
    images = augmentation.sample(split, torch.tensor([1, 0, 1]), generator(0, "augment"))
    assert (images.shape, images.device.type) == ((3, 3, 8, 10), "meta")  # meta has no numbers to give


def test_the_tightest_crop_still_averages_two_pixels_into_one() -> None:
    assert ScaleCrop().source_side(32, 48) * 224 / 384 >= 2 * 48
