"""Operations, boxes and noise of the augmentations that fine-tuning recipes share, by their definitions."""

import numpy as np
import pytest
import torch
from PIL import Image

from isopix.core.random import generator
from isopix.data import rand_augment
from isopix.data.augment import NoAugmentation, resized_boxes
from isopix.data.rand_augment import DEVIATION, MEAN, OPERATIONS, RandAugment, erased
from isopix.data.splits import Split
from tests.unit.data.shards import smooth, whole

X = np.random.default_rng(0).integers(0, 256, (40, 40, 3)).astype(np.int64)
GRAY = (X @ [0.299, 0.587, 0.114])[..., None]
RAMP = np.repeat(2 * np.arange(40)[None, :, None] + np.zeros((40, 1, 1)), 3, 2)
EXPECTED = {
    ("invert", 0.9): 255 - X,
    ("posterize", 0.9): X & 0b10000000,
    ("solarize", -0.5): np.where(X < 128, X, 255 - X),
    ("solarize_add", 0.9): np.where(X < 128, X + 99, X),
    ("brightness", -0.5): 0.55 * X,
    ("color", -0.9): GRAY + 0.19 * (X - GRAY),
    ("contrast", 0.9): np.round(GRAY.mean()) + 1.81 * (X - np.round(GRAY.mean())),
    ("rotate", 3.0): np.rot90(X),
    ("translate_x", 0.5): np.pad(X[:, 9:], [(0, 0), (0, 9), (0, 0)], constant_values=-999),
    ("translate_y", -0.5): np.pad(X[:-9], [(9, 0), (0, 0), (0, 0)], constant_values=-999),
    ("shear_x", 0.5): RAMP + 2 * 0.15 * (np.arange(40)[:, None, None] + 0.5),
    ("shear_y", 0.5): (RAMP + 2 * 0.15 * (np.arange(40)[:, None, None] + 0.5)).transpose(1, 0, 2),
}


@pytest.mark.parametrize(("name", "strength"), EXPECTED)
def test_an_operation_is_its_definition(name: str, strength: float) -> None:
    """Within the rounding of PIL, and away from the border of sheared ramps; -999 is beyond the border."""
    image, expected, inside = X, EXPECTED[name, strength], slice(None)
    if "shear" in name:
        image, inside = RAMP if name == "shear_x" else RAMP.transpose(1, 0, 2), slice(2, 30)
    found = np.array(OPERATIONS[name](Image.fromarray(image.astype(np.uint8)), strength))
    expected = np.where(expected == -999, MEAN, expected).clip(0, 255)
    np.testing.assert_allclose(found[inside, inside], expected[inside, inside], atol=1.5)


def test_half_of_the_operations_are_applied_at_normal_strengths_of_both_signs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    strengths = list[float]()
    monkeypatch.setattr(rand_augment, "OPERATIONS", {"one": lambda x, s: strengths.append(s) or x})
    split = Split(torch.zeros(1000, 3, 2, 2, dtype=torch.uint8))
    augment = RandAugment(base=NoAugmentation(), operations=2, magnitude=9, deviation=0.5)
    augment.sample(split, torch.arange(1000), generator(0, "augment"))
    found = torch.tensor(strengths)
    assert 900 < len(found) < 1100
    assert 0.45 < (found > 0).float().mean() < 0.55
    assert found.abs().max() <= 1
    assert (found.abs().mean().item(), found.std().item()) == pytest.approx((0.9, 0.9), abs=0.02)
    assert found.abs().std().item() == pytest.approx(0.05, abs=0.01)


def test_an_erased_box_is_noise_of_the_area_and_ratio_of_its_definition() -> None:
    black, random = torch.zeros(3, 60, 80, dtype=torch.uint8), generator(0, "erase")
    areas, ratios, pixels = [], [], []
    for _ in range(300):
        inside = (changed := erased(black, random)).bool().any(0)
        rows, cols = inside.any(1).sum().item(), inside.any(0).sum().item()
        ratios.append(rows / cols)
        areas.append(rows * cols / 4800)
        pixels.append(changed[:, inside].double())
    assert 0.27 < min(ratios) < 0.4
    assert 2.5 < max(ratios) < 3.7
    assert 0.015 < min(areas) < 0.03
    assert 0.3 < max(areas) < 0.345
    noise = torch.cat(pixels, 1)
    torch.testing.assert_close(noise.mean(1), torch.tensor(MEAN).double(), rtol=0, atol=2)
    torch.testing.assert_close(noise.std(1), torch.tensor(DEVIATION).double(), rtol=0.05, atol=0)


def test_boxes_of_an_inception_crop_have_its_areas_and_ratios_and_lie_inside() -> None:
    """A panorama has no box of half of its area: its height at a ratio of the range is taken."""
    images = whole(*[smooth(60, 80)] * 500, *[smooth(10, 400)] * 500)
    boxes = resized_boxes(images, 1.0, 0.5, 4 / 3, generator(0, "boxes"))
    ratio, area = boxes.width / boxes.height, boxes.width * boxes.height
    assert 0.75 <= ratio.min() < 0.77
    assert 1.3 < ratio.max() <= 4 / 3 + 1e-6
    assert 0.5 <= area[:500].min() / 4800 < 0.51
    assert 0.9 < area[:500].max() / 4800 <= 1
    assert boxes.height[500:].eq(10).all()
    assert min(boxes.top.min(), boxes.left.min()) >= 0
    assert (boxes.top + boxes.height <= images.heights + 1e-3).all()
    assert (boxes.left + boxes.width <= images.widths + 1e-3).all()
