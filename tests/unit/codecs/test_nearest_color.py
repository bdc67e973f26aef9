"""The nearest color is the exact one, whichever way it is found."""

from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from isopix.codecs import nearest_color, palette_file
from isopix.core.random import generator

PIXELS = 2**24


def brute(colors: Tensor, index: Tensor) -> NDArray[np.int64]:
    """Whole-number distances to every color, in int64, which numpy does not round."""
    points = colors.numpy().astype(np.int64)
    found = []
    for part in torch.split(index, 2**17 // len(points)):
        pixels = (
            torch.stack([part >> 16, part >> 8 & 255, part & 255], 1).numpy()
            * nearest_color.FIXED_POINT_SCALE
        )
        distances = sum((pixels[:, None, axis] - points[None, :, axis]) ** 2 for axis in range(3))
        found.append(np.asarray(distances).argmin(1))
    return np.concatenate(found)


def fixed(levels: Tensor) -> Tensor:
    return (levels.double().clamp(0, 255) * nearest_color.FIXED_POINT_SCALE).round().int()


def spread(colors: int) -> Tensor:
    return fixed(255 * torch.rand(colors, 3, generator=generator(0, "spread", colors)))


def crowded(colors: int) -> Tensor:
    """All within a few levels of one another: nothing can be ruled out far from them."""
    return fixed(100 + 3 * torch.randn(colors, 3, generator=generator(0, "crowded", colors)))


def tied() -> Tensor:
    """A coarse lattice of even levels, shuffled: many pixels have several nearest colors."""
    steps = torch.arange(0, 256, 36)
    lattice = torch.cartesian_prod(steps, steps, steps)
    return fixed(lattice[torch.randperm(len(lattice), generator=generator(0, "tied"))])


def random_pixels(count: int) -> Tensor:
    return torch.randint(PIXELS, (count,), generator=generator(0, "pixels"))


@pytest.mark.parametrize(
    "colors",
    [spread(1), spread(2), spread(17), crowded(32), tied()],
    ids=["1", "2", "17", "crowded", "tied"],
)
def test_table_is_brute_force(colors: Tensor) -> None:
    index = random_pixels(2**15)
    assert np.array_equal(nearest_color.lookup_table(colors)[index].numpy(), brute(colors, index))


def test_table_of_512_colors_is_the_search() -> None:
    colors, index = spread(512), random_pixels(2**18)
    pixels = torch.stack([index >> 16, index >> 8 & 255, index & 255], 1).to(torch.uint8)
    assert torch.equal(
        nearest_color.lookup_table(colors)[index].long(), nearest_color.nearest_codes(colors, pixels)
    )


@pytest.mark.parametrize("colors", [spread(2), crowded(32), tied()], ids=["2", "crowded", "tied"])
def test_search_is_brute_force(colors: Tensor) -> None:
    index = random_pixels(2**16)
    pixels = torch.stack([index >> 16, index >> 8 & 255, index & 255], 1).to(torch.uint8)
    assert np.array_equal(nearest_color.nearest_codes(colors, pixels).numpy(), brute(colors, index))


@pytest.mark.parametrize("order", [[0, 1], [1, 0]])
def test_ties_go_to_the_lower_index(order: list[int]) -> None:
    colors = fixed(torch.tensor([[10.0, 0, 0], [12.0, 0, 0]])[order])
    assert nearest_color.nearest_codes(colors, torch.tensor([[11, 0, 0]], dtype=torch.uint8)).item() == 0
    assert nearest_color.lookup_table(colors)[11 << 16].item() == 0


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("which", ["openai", "spread", "tied"])
def test_table_is_brute_force_on_all_colors(which: str, real_data: Path) -> None:
    openai = palette_file.read_palette(real_data / "openai-kmeans-centers.npy").colors
    colors = {"openai": fixed(openai), "spread": spread(512), "tied": tied()}[which]
    table = nearest_color.lookup_table(colors)
    for index in torch.split(torch.arange(PIXELS), 2**20):
        assert np.array_equal(table[index].numpy(), brute(colors, index))
