"""The nearest color is the exact one, whichever way it is found."""

import numpy as np
import pytest
import torch
from jaxtyping import Float, Shaped
from numpy.typing import NDArray
from torch import Tensor

from isopix.codecs import nearest_color
from isopix.codecs.nearest_color import MovingCenters
from isopix.core.random import generator

PIXELS = 2**24


def brute(colors: Tensor, index: Tensor) -> NDArray[np.int64]:
    """Whole-number distances to every color, in int64, which numpy does not round."""
    points = colors.numpy().astype(np.int64)
    found = []
    for part in torch.split(index, 2**17 // len(points)):
        pixels = pixels_of(part).numpy().astype(np.int64) * nearest_color.FIXED_POINT_SCALE
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


def pixels_of(index: Tensor) -> Tensor:
    return torch.stack([index >> 16, index >> 8 & 255, index & 255], 1).to(torch.uint8)


def random_pixels(count: int) -> Tensor:
    return torch.randint(PIXELS, (count,), generator=generator(0, "pixels"))


@pytest.mark.parametrize(
    "colors", [spread(1), spread(2), spread(17), crowded(32), tied()], ids=["1", "2", "17", "crowded", "tied"]
)
def test_table_and_search_are_brute_force(colors: Tensor) -> None:
    index = random_pixels(2**15)
    expected = brute(colors, index)
    assert np.array_equal(nearest_color.lookup_table(colors)[index].numpy(), expected)
    assert np.array_equal(nearest_color.nearest_codes(colors, pixels_of(index)).numpy(), expected)


def _require_nearest(
    moving: MovingCenters, points: Shaped[Tensor, "_ 3"], centers: Float[Tensor, "K 3"]
) -> None:
    rounded = (centers.double() * 65536).round()
    distances = (points.double()[:, None] * 65536 - rounded).square().sum(2)
    assert torch.equal(moving.nearest(centers), distances.argmin(1))


@pytest.mark.parametrize("step", [0.0, 0.01, 1.0, 40.0])
@pytest.mark.parametrize("count", [1, 2, 9, 40, 600])
def test_the_nearest_center_is_found_after_every_move(count: int, step: float) -> None:
    draw = generator(0, "centers")
    points = torch.randint(0, 256, (3000, 3), generator=draw, dtype=torch.uint8)
    centers = 255 * torch.rand(count, 3, generator=draw)
    centers[count // 2] = centers[count // 3]  # the lower index of equal distances
    moving = MovingCenters(points)
    for _ in range(6):
        _require_nearest(moving, points, centers)
        centers = (centers + step * torch.randn(count, 3, generator=draw)).clamp(0, 255)
        _require_nearest(moving, points, centers.round() // 20 * 20)  # many equal ones and distances
