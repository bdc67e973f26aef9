import math

import pytest
import torch

from isopix.core.random import generator
from isopix.core.types import Grid
from isopix.objectives.masks import Independent

GRID = Grid(32, 32)


@pytest.mark.parametrize("ratio", [0.15, 0.5])
def test_the_share_hidden_is_the_ratio_within_three_deviations(ratio: float) -> None:
    hidden = Independent(ratio=ratio).draw(64, GRID, generator(0, "masks"))
    deviation = math.sqrt(ratio * (1 - ratio) / hidden.numel())
    assert float(hidden.float().mean()) == pytest.approx(ratio, abs=3 * deviation)


def test_positions_are_hidden_independently() -> None:
    """Neighbours are hidden together as often as chance has it."""
    hidden = Independent().draw(256, GRID, generator(0, "masks")).view(256, 32, 32).float()
    both = float((hidden[:, :, 1:] * hidden[:, :, :-1]).mean())
    assert both == pytest.approx(0.15**2, abs=0.001)


def test_the_bound_on_hidden_positions_is_never_passed() -> None:
    mask = Independent()
    for batch, grid in ((1, Grid(2, 2)), (4, Grid(8, 8)), (32, GRID)):
        most = mask.most(batch * grid.positions)
        drawn = [int(mask.draw(batch, grid, generator(0, "masks", step)).sum()) for step in range(300)]
        assert max(drawn) <= most <= batch * grid.positions


@pytest.mark.parametrize("ratio", [0.0, 1.0, -0.1, math.nan])
def test_impossible_ratios_are_refused(ratio: float) -> None:
    with pytest.raises(ValueError, match="must lie between 0 and 1, both excluded"):
        Independent(ratio=ratio)


def test_masks_are_a_function_of_the_generator() -> None:
    one, same, other = (Independent().draw(2, GRID, generator(0, "masks", step)) for step in (0, 0, 1))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
