"""Fixed position embeddings against their formula, their interpolation, and pools over positions."""

import cmath
import math
from typing import get_args

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.ndimage import zoom
from torch import Tensor

from isopix.core.random import generator
from isopix.core.types import Grid
from isopix.model.positions import (
    FactorizedPositionEmbedding,
    Pool,
    RotaryPositionEmbeddingSpec,
    SinCosPositionEmbeddingSpec,
    interpolate_pos_embed,
    pool_tokens,
    pooled_width,
    resize_pos_embed,
    sincos_table,
)
from tests.laws import cases


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


def test_rotary_multiplies_complex_numbers_by_those_of_row_and_column() -> None:
    """Channels k and k + size / 2 are real and imaginary part; rows turn the first half of them."""
    grid, size, base = Grid(3, 5), 8, 100.0
    heads = torch.randn(2, 3, 15, size, generator=generator(0, "heads"))
    rotation = RotaryPositionEmbeddingSpec(base=base).rotation(grid, size)
    expected = torch.complex(heads[..., :4], heads[..., 4:])
    for position in range(15):
        row, col = divmod(position, 5)
        for k, angle in enumerate([row, row / base**0.5, col, col / base**0.5]):
            expected[:, :, position, k] *= cmath.exp(1j * angle)
    expected = torch.cat([expected.real, expected.imag], -1)
    torch.testing.assert_close(rotation(heads, slice(None)), expected)
    torch.testing.assert_close(
        rotation(heads[:, :, :2], slice(7, 9)), rotation(heads[:, :, :2].clone(), torch.tensor([[7, 8]] * 2))
    )
    assert dict(rotation.state_dict()) == {}


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
@pytest.mark.parametrize("name", get_args(Pool))
def test_a_pool_is_what_its_name_says(name: Pool, grid: Grid, num_prefix: int) -> None:
    tokens = torch.randn(3, num_prefix + grid.positions, 4, generator=generator(0, "tokens"))
    found = pool_tokens(tokens, name, grid, num_prefix)
    expected = np.stack([by_hand(name, image, grid, num_prefix) for image in tokens.double().numpy()])
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5, atol=1e-6)
    assert found.dtype == torch.float32
    assert found.shape[1] == pooled_width(name, grid, 4)
