"""Fixed position embeddings against their formula, and interpolation to another grid."""

import math

import pytest
import torch
from scipy.ndimage import zoom
from torch import Tensor

from isopix.core.random import generator
from isopix.core.types import Grid
from isopix.model.positions import (
    FactorizedPositionEmbedding,
    SinCosPositionEmbeddingSpec,
    interpolate_pos_embed,
    resize_pos_embed,
    sincos_table,
)


def table(grid: Grid, width: int = 3) -> Tensor:
    return torch.randn(grid.positions, width, generator=generator(0, "table"))


def test_each_sine_and_cosine_is_that_of_the_formula_saved_and_not_trained() -> None:
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
    module = SinCosPositionEmbeddingSpec().build(grid, width)
    assert (list(module.state_dict()), list(module.parameters())) == (["table"], [])
    assert torch.equal(module(torch.zeros(1, 15, width))[0], table)


@pytest.mark.parametrize(("old", "new"), [(Grid(4, 4), Grid(7, 7)), (Grid(3, 5), Grid(6, 4))])
def test_bilinear_is_what_the_papers_code_does(old: Grid, new: Grid) -> None:
    """SciPy's zoom of first order, which the released code calls; all else stays untouched."""
    given = {"backbone.positions.table": table(old), "backbone.cls_token": torch.ones(3)}
    factors = (new.rows / old.rows, new.cols / old.cols, 1)
    expected = zoom(table(old).view(*old, 3).numpy(), factors, order=1).reshape(-1, 3)
    found = resize_pos_embed(given, old, new)
    torch.testing.assert_close(found["backbone.positions.table"], torch.from_numpy(expected))
    assert found["backbone.cls_token"] is given["backbone.cls_token"]


def test_bicubic_aligns_the_borders_of_the_outer_positions() -> None:
    """Three times as fine, each old position has its center on a new one's."""
    given = table(Grid(3, 4))
    finer = interpolate_pos_embed(given, Grid(3, 4), Grid(9, 12), "bicubic").view(9, 12, 3)
    torch.testing.assert_close(finer[1::3, 1::3].reshape(12, 3), given)
    assert not torch.allclose(finer[1, 2], finer[1, 1])


def test_factorized_positions_grow_along_each_axis_alone() -> None:
    """Interpolating rows and columns is interpolating their sums."""
    old, new = Grid(2, 3), Grid(5, 4)
    small, large = FactorizedPositionEmbedding(old, 3), FactorizedPositionEmbedding(new, 3)
    with torch.no_grad():
        small.rows.copy_(table(Grid(2, 1)))
        small.cols.copy_(table(Grid(1, 3)))
    named = {f"backbone.positions.{name}": value.detach() for name, value in small.state_dict().items()}
    grown = resize_pos_embed(named, old, new)
    large.load_state_dict({name.rpartition(".")[2]: value for name, value in grown.items()})
    torch.testing.assert_close(large.vectors(), interpolate_pos_embed(small.vectors(), old, new))
