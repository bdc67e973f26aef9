"""Palettes as pictures."""

import pytest
import torch

from isopix.core.random import generator
from isopix.plots import palette as plots


def colours(count: int) -> torch.Tensor:
    return (255 * torch.rand(count, 3, generator=generator(0, "colours"))).round()


@pytest.mark.parametrize("count", [1, 17, 33, 512])
def test_every_colour_has_one_tile(count: int) -> None:
    palette = colours(count)
    tiles = plots.arrange(palette, plots.oklab(palette)).flatten(0, 1).tolist()
    for colour in palette.tolist():
        tiles.remove(colour)
    assert all(tile == [255, 255, 255] for tile in tiles)


def test_columns_run_from_light_to_dark() -> None:
    palette = colours(512)
    tiles = plots.arrange(palette, plots.oklab(palette))
    lightness = plots.oklab(tiles.flatten(0, 1))[:, 0].view(tiles.shape[:2])
    assert (lightness.diff(dim=0) <= 0).all()


def test_oklab_has_its_published_values() -> None:
    # Ottosson (2020) in sRGB: white, red, blue.
    found = plots.oklab(torch.tensor([[255.0, 255, 255], [255, 0, 0], [0, 0, 255]]))
    wanted = torch.tensor([[1.0, 0, 0], [0.62796, 0.22486, 0.12585], [0.45201, -0.03246, -0.31153]])
    assert torch.allclose(found, wanted, atol=1e-4)


@pytest.mark.parametrize("counted", [False, True])
def test_the_picture_of_a_palette_names_it(counted: bool) -> None:
    counts = torch.arange(40) if counted else None
    drawn = plots.palette(colours(40), counts, title="forty colours")
    assert drawn.axes[0].get_title("left") == "forty colours"
    assert len(drawn.axes) == (4 if counted else 3)


def test_before_and_after_has_three_rows_an_image() -> None:
    images = torch.zeros(5, 3, 4, 6, dtype=torch.uint8)
    assert len(plots.before_after(images, images).axes) == 15
