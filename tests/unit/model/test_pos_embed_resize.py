import pytest
import torch
from scipy.ndimage import zoom
from torch import Tensor

from isopix.core.random import generator
from isopix.core.types import Grid
from isopix.model.positions import FactorizedPositionEmbedding, interpolate_pos_embed, resize_pos_embed


def table(grid: Grid, width: int = 3) -> Tensor:
    return torch.randn(grid.positions, width, generator=generator(0, "table"))


@pytest.mark.parametrize(("old", "new"), [(Grid(4, 4), Grid(7, 7)), (Grid(3, 5), Grid(6, 4))])
def test_bilinear_is_what_the_papers_code_does(old: Grid, new: Grid) -> None:
    """SciPy's zoom of first order, which the released code calls."""
    given = table(old)
    factors = (new.rows / old.rows, new.cols / old.cols, 1)
    expected = zoom(given.view(*old, 3).numpy(), factors, order=1).reshape(-1, 3)
    torch.testing.assert_close(interpolate_pos_embed(given, old, new), torch.from_numpy(expected))


def test_bicubic_aligns_the_borders_of_the_outer_positions() -> None:
    """Three times as fine, each old position has its center on a new one's."""
    given = table(Grid(3, 4))
    finer = interpolate_pos_embed(given, Grid(3, 4), Grid(9, 12), "bicubic").view(9, 12, 3)
    torch.testing.assert_close(finer[1::3, 1::3].reshape(12, 3), given)
    assert not torch.allclose(finer[1, 2], finer[1, 1])


def test_a_class_token_and_all_else_stay_untouched() -> None:
    tensors = {
        "backbone.positions.table": table(Grid(2, 2)),
        "backbone.cls_token": torch.ones(3),
        "head.project.weight": torch.ones(2, 3),
    }
    larger = resize_pos_embed(tensors, Grid(2, 2), Grid(4, 4))
    assert larger["backbone.positions.table"].shape == (16, 3)
    assert all(larger[name] is tensors[name] for name in list(tensors)[1:])


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
