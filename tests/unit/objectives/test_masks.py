import math

import pytest
import torch

from isopix.core.random import generator
from isopix.core.types import Grid
from isopix.objectives.masks import BernoulliMask, BlockMask, MaskSpec, PerChannelMask

GRID = Grid(32, 32)


@pytest.mark.parametrize("ratio", [0.15, 0.5])
@pytest.mark.parametrize("kind", [BernoulliMask, PerChannelMask])
def test_the_masked_fraction_is_the_ratio_within_three_std(kind: type[MaskSpec], ratio: float) -> None:
    mask = kind(ratio=ratio).sample(64, GRID, 3, generator(0, "masks"))
    deviation = math.sqrt(ratio * (1 - ratio) / mask.numel())
    assert float(mask.float().mean()) == pytest.approx(ratio, abs=3 * deviation)


def test_positions_are_masked_independently() -> None:
    """Neighbors are masked together as often as if independent."""
    mask = BernoulliMask().sample(256, GRID, 3, generator(0, "masks")).view(256, 32, 32).float()
    both = float((mask[:, :, 1:] * mask[:, :, :-1]).mean())
    assert both == pytest.approx(0.15**2, abs=0.001)


def test_codes_of_a_position_are_masked_together_or_independently() -> None:
    assert BernoulliMask().sample(2, GRID, 3, generator(0, "masks")).shape == (2, 1024, 1)
    mask = PerChannelMask().sample(256, GRID, 3, generator(0, "masks")).float()
    assert mask.shape == (256, 1024, 3)
    assert float((mask[..., 0] * mask[..., 2]).mean()) == pytest.approx(0.15**2, abs=0.001)


@pytest.mark.parametrize(("mask", "fraction"), [(BernoulliMask(), 0.15), (PerChannelMask(), 1 - 0.85**3)])
def test_the_expected_fraction_of_masked_positions_is_known(mask: MaskSpec, fraction: float) -> None:
    masked = mask.sample(256, GRID, 3, generator(0, "masks")).any(-1)
    assert mask.expected_fraction(GRID.positions, 3) == pytest.approx(fraction)
    assert float(masked.float().mean()) == pytest.approx(fraction, abs=0.003)


@pytest.mark.parametrize("mask", [BernoulliMask(), PerChannelMask()])
def test_the_bound_on_masked_positions_is_never_exceeded(mask: MaskSpec) -> None:
    for batch, grid in ((1, Grid(2, 2)), (4, Grid(8, 8)), (32, GRID)):
        most = mask.max_positions(batch, grid.positions, 3)
        drawn = [
            int(mask.sample(batch, grid, 3, generator(0, "masks", step)).any(-1).sum()) for step in range(200)
        ]
        assert max(drawn) <= most <= batch * grid.positions


def test_block_masks_always_reach_their_bound() -> None:
    drawn = BlockMask().sample(3, Grid(14, 14), 64, generator(0, "masks"))
    assert BlockMask().max_positions(3, 196, 64) == drawn.sum() == 3 * 116


@pytest.mark.parametrize("ratio", [0.0, 1.0, -0.1, math.nan])
@pytest.mark.parametrize("kind", [BernoulliMask, PerChannelMask])
def test_impossible_ratios_are_refused(kind: type[MaskSpec], ratio: float) -> None:
    with pytest.raises(ValueError, match="allowed: above 0 and below 1"):
        kind(ratio=ratio)


def test_masks_are_a_function_of_the_generator() -> None:
    one, same, other = (BernoulliMask().sample(2, GRID, 3, generator(0, "masks", step)) for step in (0, 0, 1))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
