"""Noise of patches against plain definitions, and what it must not reach."""

import colorsys
import statistics

import pytest
import torch
from torch import Tensor

from isopix.core.config import from_dict
from isopix.core.random import generator
from isopix.data.patch_augment import RandomPatchAugment, color_jitter, random_resized_crop

STILL = RandomPatchAugment(crop=1.0, strength=0.0, flip=0.0, min_bits=8, gray=0.0)


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


def test_a_fifth_of_the_patches_is_mirrored() -> None:
    x = images(16, 64)
    shown = lone(flip=0.2).apply(x, 8, generator(0, "noise"))
    cells, before = (each.view(16, 3, 8, 8, 8, 8).permute(0, 2, 4, 1, 3, 5) for each in (shown, x))
    flipped = (cells == before.flip(5)).flatten(3).all(3)
    assert torch.equal(flipped, ~(cells == before).flatten(3).all(3))
    assert float(flipped.float().mean()) == pytest.approx(0.2, abs=0.04)


def lone(**changes: object) -> RandomPatchAugment:
    """One kind of noise, and none of the others."""
    return from_dict(RandomPatchAugment, {**vars(STILL), **changes})


def test_a_fifth_of_the_patches_is_blended_with_its_gray_by_any_share() -> None:
    red = torch.tensor([200, 40, 40], dtype=torch.uint8).view(1, 3, 1, 1).expand(1, 3, 320, 320)
    shown = lone(gray=0.2).apply(red, 8, generator(0, "noise"))[0, 0, ::8, ::8].flatten().float()
    luma = 40 + 0.299 * 160
    shares = (200 - shown[shown < 200]) / (200 - luma)
    assert len(shares) / 1600 == pytest.approx(0.2, abs=0.03)
    assert (float(shares.min()), float(shares.max())) == pytest.approx((0, 1), abs=0.03)
    assert float(shares.mean()) == pytest.approx(0.5, abs=0.06)


def test_every_number_of_bits_from_two_to_eight_is_as_frequent() -> None:
    """A patch of 16 x 16 pixels with every level once has as many levels left as its bits tell apart."""
    every = torch.arange(256, dtype=torch.uint8).view(1, 1, 16, 16).expand(1, 3, 16, 16).tile(1, 1, 30, 30)
    shown = lone(min_bits=2).apply(every, 16, generator(0, "noise"))[0, 0]
    cells = shown.view(30, 16, 30, 16).transpose(1, 2).reshape(900, 256)
    bits = torch.tensor([len(cell.unique()) for cell in cells]).log2()
    values, counts = bits.unique(return_counts=True)
    assert values.tolist() == [2, 3, 4, 5, 6, 7, 8]
    assert counts.div(900).tolist() == pytest.approx([1 / 7] * 7, abs=0.04)


def test_colors_are_moved_by_as_much_as_inceptions() -> None:
    """Brightness by up to 32 levels, saturation by half to one and a half, hue by up to a fifth of a turn:
    each drawn evenly, seen on patches of one color, in HSV.
    """
    start = (150, 100, 110)
    flat = torch.tensor(start, dtype=torch.uint8).view(1, 3, 1, 1).expand(1, 3, 320, 320)
    shown = lone(strength=1.0).apply(flat, 8, generator(0, "noise"))[0, :, ::8, ::8].flatten(1).T
    hue, saturation, value = colorsys.rgb_to_hsv(*start)
    found = [colorsys.rgb_to_hsv(*each) for each in shown.tolist()]
    amounts = {
        "brightness": [each[2] - value for each in found],
        "chroma": [each[1] * each[2] / (saturation * value) for each in found],
        "hue": [(each[0] - hue + 0.5) % 1 - 0.5 for each in found],
    }
    ranges = {"brightness": (-32, 32), "chroma": (0.5, 1.5), "hue": (-0.2, 0.2)}
    for name, (low, high) in ranges.items():
        near = 0.06 * (high - low)
        assert (min(amounts[name]), max(amounts[name])) == pytest.approx((low, high), abs=near), name
        assert statistics.mean(amounts[name]) == pytest.approx((low + high) / 2, abs=near), name


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
