"""Figures of palettes."""

import pytest
import torch

from isopix.core.random import generator
from isopix.plots import palette as plots


def colors(count: int) -> torch.Tensor:
    return (255 * torch.rand(count, 3, generator=generator(0, "colours"))).round()


@pytest.mark.parametrize("count", [1, 17, 33, 512])
def test_every_color_has_one_tile(count: int) -> None:
    palette = colors(count)
    tiles = plots.arrange_colors(palette).flatten(0, 1).tolist()
    for color in palette.tolist():
        tiles.remove(color)
    assert all(tile == [255, 255, 255] for tile in tiles)


def test_columns_run_from_light_to_dark() -> None:
    palette = colors(512)
    tiles = plots.arrange_colors(palette)
    lightness = plots.oklab(tiles.flatten(0, 1))[:, 0].view(tiles.shape[:2])
    assert (lightness.diff(dim=0) <= 0).all()


def test_oklab_has_its_published_values() -> None:
    # Ottosson (2020) in sRGB: white, red, blue.
    found = plots.oklab(torch.tensor([[255.0, 255, 255], [255, 0, 0], [0, 0, 255]]))
    expected = torch.tensor([[1.0, 0, 0], [0.62796, 0.22486, 0.12585], [0.45201, -0.03246, -0.31153]])
    assert torch.allclose(found, expected, atol=1e-4)
