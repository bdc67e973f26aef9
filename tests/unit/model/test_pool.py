"""Pools are over positions, without prefix tokens; only the first token may be one."""

import math

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from isopix.core.random import generator
from isopix.core.types import Grid
from isopix.model.pool import POOLS, Pool, pool_tokens, pooled_width
from isopix.probing.features import extract_features
from tests.laws import cases

WITHOUT = next(case for case in cases.masked() if not case.model.class_token)
GRIDS = [Grid(16, 16), Grid(14, 14), Grid(4, 6), Grid(5, 4)]


def by_hand(name: Pool, image: NDArray[np.float64], grid: Grid, num_prefix: int) -> NDArray[np.float64]:
    """The pool of one image's tokens [N D]; cell i of s has rows floor(i R / s) to ceil((i + 1) R / s)."""
    if name in ("first", "last"):
        return image[0] if name == "first" else image[-1]
    positions = image[num_prefix:]
    if name in ("mean", "max"):
        return positions.mean(0) if name == "mean" else positions.max(0)
    if name == "flatten":
        return np.concatenate(list(positions))
    size, cells = int(name.removeprefix("grid")), []
    for i in range(size):
        for j in range(size):
            rows = range(i * grid.rows // size, math.ceil((i + 1) * grid.rows / size))
            cols = range(j * grid.cols // size, math.ceil((j + 1) * grid.cols / size))
            cells.append(np.mean([positions[r * grid.cols + c] for r in rows for c in cols], axis=0))
    return np.concatenate(cells)


@pytest.mark.parametrize("num_prefix", [0, 1])
@pytest.mark.parametrize("grid", GRIDS, ids=str)
@pytest.mark.parametrize("name", POOLS)
def test_a_pool_is_what_its_name_says(name: Pool, grid: Grid, num_prefix: int) -> None:
    tokens = torch.randn(3, num_prefix + grid.positions, 4, generator=generator(0, "tokens"))
    found = pool_tokens(tokens, name, grid, num_prefix)
    expected = np.stack([by_hand(name, image, grid, num_prefix) for image in tokens.double().numpy()])
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5, atol=1e-6)
    assert found.dtype == torch.float32
    assert found.shape[1] == pooled_width(name, grid, 4)


def test_several_pools_are_concatenated() -> None:
    network, images = cases.busy(WITHOUT), cases.images(WITHOUT)
    parts = [extract_features(network, images, pool=each) for each in ("mean", "grid2")]
    assert torch.equal(extract_features(network, images, pool=("mean", "grid2")), torch.cat(parts, 2))
