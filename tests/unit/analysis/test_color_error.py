"""The misplaced part of the color error is the difference between the plain and the sorted error."""

import pytest
import torch
from scipy.stats import wasserstein_distance

from isopix.analysis.color_error import color_error
from isopix.core.random import generator

ALL = torch.ones(2, 64, 1, dtype=torch.bool)


def images(seed: int) -> torch.Tensor:
    return torch.randint(256, (2, 3, 8, 8), dtype=torch.uint8, generator=generator(seed, "images"))


def test_permuted_colors_are_all_misplaced_and_a_constant_error_is_not() -> None:
    same, black = color_error(images(0), ALL, images(0)), torch.zeros(2, 3, 8, 8, dtype=torch.uint8)
    assert (same.mean_absolute, same.histogram, same.misplaced_fraction) == (0, 0, 0)
    permuted, constant = color_error(images(0), ALL, images(0).flip(3)), color_error(black, ALL, black + 51)
    assert permuted.mean_absolute > 0.2
    assert (permuted.histogram, permuted.misplaced_fraction) == (0, 1)
    assert (constant.mean_absolute, constant.misplaced_fraction) == pytest.approx((0.2, 0))


def test_the_histogram_error_is_the_wasserstein_distance_of_masked_levels() -> None:
    target, prediction = images(0), images(1)
    mask = torch.rand(2, 64, 1, generator=generator(0, "hidden")) < 0.3
    expected = [
        wasserstein_distance(a[channel][masked[:, 0]], b[channel][masked[:, 0]]) / 255
        for a, masked, b in zip(target.flatten(2), mask, prediction.flatten(2), strict=True)
        for channel in range(3)
    ]
    assert color_error(target, mask, prediction).histogram == pytest.approx(sum(expected) / 6, rel=1e-5)


def test_images_without_masked_pixels_are_skipped() -> None:
    mask = ALL.clone()
    mask[1] = False
    alone = color_error(images(0)[:1], ALL[:1], images(1)[:1])
    assert color_error(images(0), mask, images(1)) == pytest.approx(alone)
    with pytest.raises(ValueError, match="no pixel of these images is masked"):
        color_error(images(0), ~ALL, images(1))
