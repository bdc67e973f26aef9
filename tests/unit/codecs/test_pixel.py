"""Pixel codecs: palette and bytes."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from isopix.codecs import palette as palette_module
from isopix.codecs.palette import Palette
from isopix.codecs.palette_spec import read_palette
from isopix.codecs.patches import Bytes
from isopix.core.random import generator
from isopix.core.types import Grid

GRID = Grid(4, 6)
RAMP = torch.arange(16.0)[:, None].expand(16, 3) * 17


def draw(*shape: int) -> Tensor:
    return torch.randint(256, shape, dtype=torch.uint8, generator=generator(0, "images"))


def spread(colors: int) -> Tensor:
    return 255 * torch.rand(colors, 3, generator=generator(0, "colors"))


def test_openai_palette_gives_the_codes_of_their_own_distance(real_data: Path) -> None:
    centers = torch.from_numpy(np.load(real_data / "openai-kmeans-centers.npy"))
    images = draw(1, 3, 128, 128)
    pixels = images[0].flatten(1).T / 127.5 - 1
    parts = torch.split(pixels, 256)
    theirs = torch.cat([(part[:, None] - centers).square().sum(2).argmin(1) for part in parts])
    assert torch.equal(Palette((centers + 1) * 127.5, GRID).encode(images).flatten(), theirs)


def test_table_is_built_when_it_pays_off(monkeypatch: pytest.MonkeyPatch) -> None:
    palette, images = Palette(spread(64), GRID), draw(1, 3, 8, 8)
    monkeypatch.setattr(palette_module, "BREAK_EVEN", 2 * 64 * 64)
    for built in (False, False, True):
        palette.encode(images)
        assert (palette.table is not None) is built


@pytest.mark.parametrize("prepared", [False, True])
@pytest.mark.parametrize(("height", "width"), [(1, 1), (4, 6), (5, 3)])
def test_images_of_any_size_are_coded_in_raster_order(prepared: bool, height: int, width: int) -> None:
    palette = Palette(RAMP, GRID)
    if prepared:
        palette.build_table()
    codes = torch.randint(16, (2, height, width), generator=generator(0, "codes"))
    images = (codes * 17).to(torch.uint8)[:, None].expand(-1, 3, -1, -1)
    assert torch.equal(palette.encode(images), codes.view(2, -1, 1))


def test_colors_that_round_to_the_same_level_are_allowed() -> None:
    colors = [[0.0, 0, 0], [9.8, 9, 9], [50, 50, 50], [10.1, 9, 9], [50, 50, 50]]
    palette = Palette(torch.tensor(colors), GRID)
    reds = torch.tensor([9, 10, 11, 50], dtype=torch.uint8)
    images = torch.stack([reds, reds.clamp(min=9), reds.clamp(min=9)])[None, :, None]
    images[0, 1:, 0, :3] = 9
    assert palette.encode(images).flatten().tolist() == [1, 3, 3, 2]
    palette.build_table()
    assert palette.encode(images).flatten().tolist() == [1, 3, 3, 2]
    assert palette.decode(torch.tensor([[[1]]]), Grid(1, 1)).flatten().tolist() == [10, 9, 9]


def test_openai_palette_decodes_as_their_code_does(real_data: Path) -> None:
    centers = np.load(real_data / "openai-kmeans-centers.npy")
    theirs = np.rint(np.float32(127.5) * (centers + np.float32(1)))  # float32, as in their sampling code
    found = read_palette(real_data / "openai-kmeans-centers.npy")
    assert found.source == "kmeans_centers.npy, matches a published copy of OpenAI's palette"
    palette = Palette(found.colors, Grid(512, 1))
    decoded = palette.decode(torch.arange(512).view(1, 512, 1)).flatten(1).view(3, 512).T
    assert np.array_equal(decoded.numpy(), theirs)
    assert decoded[283, 0] == 97


def test_the_counts_of_a_palette_are_those_of_a_search_over_all_colors() -> None:
    colors = (spread(2) * 4096).round() / 4096  # exact in fixed point
    parts = np.square(np.arange(256) - colors.double().numpy()[:, :, None])  # exact, and so are their sums
    squared = [red[:, None, None] + green[:, None] + blue for red, green, blue in parts]
    expected = np.bincount(np.argmin(squared, axis=0).ravel(), minlength=2)
    assert Palette(colors, GRID).values_per_code().tolist() == expected.tolist()
    assert Bytes(GRID).values_per_code().tolist() == [1] * 256
