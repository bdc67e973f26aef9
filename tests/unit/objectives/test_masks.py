import math

import pytest
import torch

from isopix.core.random import generator
from isopix.core.types import Grid
from isopix.objectives.masks import BernoulliMask, BlockMask, MaskSpec, PerChannelMask

GRID = Grid(32, 32)


@pytest.mark.parametrize("ratio", [0.15, 0.5])
@pytest.mark.parametrize("kind", [BernoulliMask, PerChannelMask])
def test_the_share_hidden_is_the_ratio_within_three_deviations(kind: type[MaskSpec], ratio: float) -> None:
    hidden = kind(ratio=ratio).draw(64, GRID, 3, generator(0, "masks"))
    deviation = math.sqrt(ratio * (1 - ratio) / hidden.numel())
    assert float(hidden.float().mean()) == pytest.approx(ratio, abs=3 * deviation)


def test_positions_are_hidden_independently() -> None:
    """Neighbours are hidden together as often as chance has it."""
    hidden = BernoulliMask().draw(256, GRID, 3, generator(0, "masks")).view(256, 32, 32).float()
    both = float((hidden[:, :, 1:] * hidden[:, :, :-1]).mean())
    assert both == pytest.approx(0.15**2, abs=0.001)


def test_codes_of_a_position_are_hidden_together_or_independently() -> None:
    assert BernoulliMask().draw(2, GRID, 3, generator(0, "masks")).shape == (2, 1024, 1)
    hidden = PerChannelMask().draw(256, GRID, 3, generator(0, "masks")).float()
    assert hidden.shape == (256, 1024, 3)
    assert float((hidden[..., 0] * hidden[..., 2]).mean()) == pytest.approx(0.15**2, abs=0.001)


@pytest.mark.parametrize(("mask", "share"), [(BernoulliMask(), 0.15), (PerChannelMask(), 1 - 0.85**3)])
def test_the_share_of_positions_touched_is_known(mask: MaskSpec, share: float) -> None:
    touched = mask.draw(256, GRID, 3, generator(0, "masks")).any(-1)
    assert mask.touched(GRID.positions, 3) == pytest.approx(share)
    assert float(touched.float().mean()) == pytest.approx(share, abs=0.003)


@pytest.mark.parametrize("mask", [BernoulliMask(), PerChannelMask()])
def test_the_bound_on_touched_positions_is_never_passed(mask: MaskSpec) -> None:
    for batch, grid in ((1, Grid(2, 2)), (4, Grid(8, 8)), (32, GRID)):
        most = mask.most(batch, grid.positions, 3)
        drawn = [
            int(mask.draw(batch, grid, 3, generator(0, "masks", step)).any(-1).sum()) for step in range(200)
        ]
        assert max(drawn) <= most <= batch * grid.positions


def test_of_blocks_as_many_are_hidden_as_ever_can_be() -> None:
    drawn = BlockMask().draw(3, Grid(14, 14), 64, generator(0, "masks"))
    assert BlockMask().most(3, 196, 64) == drawn.sum() == 3 * 116


@pytest.mark.parametrize("ratio", [0.0, 1.0, -0.1, math.nan])
@pytest.mark.parametrize("kind", [BernoulliMask, PerChannelMask])
def test_impossible_ratios_are_refused(kind: type[MaskSpec], ratio: float) -> None:
    with pytest.raises(ValueError, match="must lie between 0 and 1, both excluded"):
        kind(ratio=ratio)


def test_masks_are_a_function_of_the_generator() -> None:
    one, same, other = (BernoulliMask().draw(2, GRID, 3, generator(0, "masks", step)) for step in (0, 0, 1))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
