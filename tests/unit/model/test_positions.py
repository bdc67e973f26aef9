"""Fixed sine and cosine positions against their formula, one number at a time."""

import math

import pytest
import torch

from isopix.core.types import Grid
from isopix.model.positions import SinCosPositionEmbeddingSpec, sincos_table


def test_each_number_is_that_of_the_formula() -> None:
    width, grid = 12, Grid(3, 5)
    table = sincos_table(grid, width)
    for row in range(grid.rows):
        for col in range(grid.cols):
            for k in range(3):
                frequency = 10_000 ** (-k / 3)
                own = table[row * grid.cols + col]
                expected = [math.sin(col * frequency), math.cos(col * frequency)]
                expected += [math.sin(row * frequency), math.cos(row * frequency)]
                assert own[[k, 3 + k, 6 + k, 9 + k]].tolist() == pytest.approx(expected, abs=1e-6)


def test_the_table_is_saved_and_not_trained() -> None:
    module = SinCosPositionEmbeddingSpec().build(Grid(2, 2), 8)
    assert list(module.state_dict()) == ["table"]
    assert not list(module.parameters())
    assert torch.equal(module(torch.zeros(1, 4, 8))[0], sincos_table(Grid(2, 2), 8))
