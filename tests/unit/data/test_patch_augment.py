"""Noise of patches against plain definitions, and what it must not reach."""

import colorsys

import pytest
import torch
from torch import Tensor

from isopix.core.random import generator
from isopix.data.patch_augment import RandomPatchAugment, color_jitter, random_resized_crop


def images(count: int = 4, side: int = 32) -> Tensor:
    shape = (count, 3, side, side)
    return torch.randint(256, shape, dtype=torch.uint8, generator=generator(0, "images"))


def lots(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float32)


def test_patches_are_disturbed_each_by_itself() -> None:
    x, other = images(1), images(1)
    other[:, :, 8:16, :8] ^= 0xFF
    one, two = (RandomPatchAugment().apply(each, 8, generator(0, "noise")) for each in (x, other))
    moved = (one != two).any(1)[0].view(4, 8, 4, 8).any(3).any(1)
    assert moved.nonzero().tolist() == [[1, 0]]


@pytest.mark.parametrize(("saturation", "turn"), [(1.0, 0.2), (1.5, -0.2), (0.5, 0.7), (4.0, 0.0)])
def test_hue_and_saturation_are_those_of_hsv(saturation: float, turn: float) -> None:
    pixels = images(1, 8).float()
    pixels[0, :, 0] = 77  # gray has no hue
    found = color_jitter(pixels, lots(0), lots(1), lots(saturation), lots(turn))
    for color, changed in zip(pixels[0].flatten(1).T.tolist(), found[0].flatten(1).T.tolist(), strict=True):
        hue, old, value = colorsys.rgb_to_hsv(*color)
        wanted = colorsys.hsv_to_rgb((hue + turn) % 1, min(1.0, saturation * old), value)
        assert changed == pytest.approx(wanted, abs=0.01)


def test_a_crop_is_taken_at_a_whole_place_and_enlarged() -> None:
    ramp = torch.arange(8.0).expand(2, 3, 8, 8)
    found = random_resized_crop(ramp, 4, lots(0.0, 0.99), lots(0.0, 0.99))
    assert found[0, 0, 0].tolist() == [0, 0.25, 0.75, 1.25, 1.75, 2.25, 2.75, 3]
    assert found[1, 0, 0].tolist() == [4, 4.25, 4.75, 5.25, 5.75, 6.25, 6.75, 7]
    assert torch.equal(random_resized_crop(ramp, 8, lots(0.5, 0.5), lots(0.5, 0.5)), ramp)


def test_contrast_is_about_the_mean_color() -> None:
    pixels = 60 + 100 * torch.rand(1, 3, 4, 4, generator=generator(0, "pixels"))
    mean = pixels.mean((2, 3), keepdim=True)
    flatter = color_jitter(pixels, lots(0), lots(0.5), lots(1), lots(0))
    torch.testing.assert_close(flatter, (pixels + mean) / 2, atol=1e-3, rtol=0)
