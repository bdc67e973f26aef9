"""Nearest moving centers are those of a comparison with all, and few points are compared with all."""

import pytest
import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from isopix.codecs import moving_centers
from isopix.codecs.moving_centers import MovingCenters
from isopix.core.random import generator


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


def test_of_equal_distances_the_lower_index_is_nearest() -> None:
    """Centers and points on a grid of whole levels have many of them; a fourth of the centers are equal."""
    draw = generator(2, "centers")
    points = torch.randint(0, 12, (3000, 3), generator=draw, dtype=torch.uint8)
    moving = MovingCenters(points)
    for _ in range(6):
        centers = torch.randint(0, 12, (400, 3), generator=draw).float()
        centers[::4] = 5.0
        _require_nearest(moving, points, centers)


def test_points_need_not_be_whole_levels() -> None:
    draw = generator(3, "centers")
    points = 255 * torch.rand(3000, 3, generator=draw, dtype=torch.float64)
    moving = MovingCenters(points)
    for _ in range(3):
        _require_nearest(moving, points, 255 * torch.rand(100, 3, generator=draw))


def test_distances_between_centers_are_computed_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moving_centers, "MAX_PAIRS", 700)
    draw = generator(4, "centers")
    points = torch.randint(0, 256, (2000, 3), generator=draw, dtype=torch.uint8)
    moving = MovingCenters(points)
    for _ in range(3):
        _require_nearest(moving, points, 255 * torch.rand(100, 3, generator=draw))


def test_few_points_are_compared_with_all_centers(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = generator(1, "centers")
    points = torch.randint(0, 256, (3000, 3), generator=draw, dtype=torch.uint8)
    centers = 255 * torch.rand(400, 3, generator=draw)
    moving, compared = MovingCenters(points), list[int]()
    moving.nearest(centers)
    real = moving_centers.nearest_centers
    monkeypatch.setattr(
        moving_centers, "nearest_centers", lambda c, points: compared.append(len(points)) or real(c, points)
    )
    moving.nearest(centers + 0.1)
    assert sum(compared) < 100
