"""Nearest moving centers are those of a comparison with every center, and few points are compared again."""

import pytest
import torch

from isopix.codecs import moving_centers
from isopix.codecs.moving_centers import MovingCenters
from isopix.core.random import generator


@pytest.mark.parametrize("step", [0.0, 0.01, 1.0, 40.0])
def test_the_nearest_center_is_found_after_every_move(step: float) -> None:
    draw = generator(0, "centers")
    points = torch.randint(0, 256, (3000, 3), generator=draw, dtype=torch.uint8)
    centers = 255 * torch.rand(40, 3, generator=draw)
    centers[7] = centers[3]  # the lower index of equal distances
    moving = MovingCenters(points)
    for _ in range(6):
        found = moving.nearest(centers)
        rounded = (centers.double() * 65536).round()
        distances = (points.double()[:, None] * 65536 - rounded).square().sum(2)
        assert torch.equal(found, distances.argmin(1))
        centers = (centers + step * torch.randn(40, 3, generator=draw)).clamp(0, 255)


def test_points_far_from_any_border_are_not_compared_again(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = generator(1, "centers")
    points = torch.randint(0, 256, (3000, 3), generator=draw, dtype=torch.uint8)
    centers = 255 * torch.rand(20, 3, generator=draw)
    moving, compared = MovingCenters(points), list[int]()
    real = torch.addmm
    monkeypatch.setattr(
        moving_centers.torch, "addmm", lambda a, b, c: compared.append(len(b)) or real(a, b, c)
    )
    moving.nearest(centers)
    assert sum(compared) == 3000
    compared.clear()
    moving.nearest(centers + 0.1)
    assert 0 < sum(compared) < 300
