"""The quantization error of a palette."""

import pytest
import torch
from torch import Tensor

from isopix.codecs.kmeans import count_colors, quantization_error
from isopix.codecs.palette import Palette
from isopix.core.types import Grid

PALETTE = Palette(torch.tensor([[0.0, 0, 0], [99.6, 100, 100], [200, 200, 200]]), Grid(1, 1))


def image(*colors: tuple[int, int, int]) -> Tensor:
    return torch.tensor(colors, dtype=torch.uint8).T[None, :, None, :]


def test_rmse_is_over_decoded_levels_of_pixels_and_channels() -> None:
    found = quantization_error(PALETTE, image((3, 0, 0), (100, 100, 104)))
    assert found.rmse == pytest.approx(((9 + 16) / 6) ** 0.5)
    assert found.psnr == pytest.approx(20 * torch.log10(torch.tensor(255 / found.rmse)).item(), rel=1e-5)


def test_no_error_has_no_psnr() -> None:
    assert quantization_error(PALETTE, image((0, 0, 0), (100, 100, 100))).psnr is None


def test_unused_and_rare_colors_are_counted() -> None:
    pixels = torch.zeros(1, 3, 1, 200_001, dtype=torch.uint8)
    pixels[..., 0] = 100
    found = quantization_error(PALETTE, pixels)
    assert found.counts.tolist() == [200_000, 1, 0]
    assert (found.record.unused_colors, found.record.rare_colors) == (1, 1)


@pytest.mark.parametrize("colors", [1, 3])
def test_histogram_and_images_measure_the_same(colors: int) -> None:
    images = torch.arange(colors * 3 * 8, dtype=torch.uint8).view(colors, 3, 2, 4)
    whole, counted = quantization_error(PALETTE, images), quantization_error(PALETTE, count_colors(images))
    assert whole.rmse == counted.rmse
    assert torch.equal(whole.counts, counted.counts)
