import math
from dataclasses import replace

import pytest
import torch

from isopix.codecs.patches import BytesSpec
from isopix.core.random import generator
from isopix.core.types import Grid
from isopix.objectives.masks import BernoulliMask, BlockMask, MaskSpec, PerChannelMask
from isopix.objectives.objectives import Masked

GRID = Grid(32, 32)


@pytest.mark.parametrize("ratio", [0.15, 0.5])
@pytest.mark.parametrize("kind", [BernoulliMask, PerChannelMask])
def test_the_masked_fraction_is_the_ratio_within_three_std(kind: type[MaskSpec], ratio: float) -> None:
    mask = kind(ratio=ratio).sample(64, GRID, 3, generator(0, "masks"))
    deviation = math.sqrt(ratio * (1 - ratio) / mask.numel())
    assert float(mask.float().mean()) == pytest.approx(ratio, abs=3 * deviation)


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


def test_the_number_of_visible_positions_is_known_of_masks_of_fixed_count_that_hide_all_they_choose() -> None:
    assert Masked(mask=BlockMask(ratio=0.5)).num_visible(64, 1) == 32
    assert Masked(mask=BlockMask(ratio=0.25, side=1)).num_visible(64, 3) == 48
    assert Masked(mask=BernoulliMask()).num_visible(64, 1) is None
    for rate in ("random_rate", "keep_rate"):
        assert Masked(mask=BlockMask(), **{rate: 0.1}).num_visible(64, 1) is None


class Wrong(BernoulliMask):
    """Masks half of the positions, and says that these are at most `one` of an image and `all` of a batch."""

    kind = "wrong"
    one: int = 64
    all: int = 256

    def max_positions(self, images: int, positions: int, num_codes: int) -> int:
        return self.one if images == 1 else self.all


class Fixed(Wrong):
    kind = "fixed"
    fixed_count = True


@pytest.mark.parametrize(
    ("mask", "right"),
    [(Wrong(), True), (Wrong(one=20), False), (Wrong(all=64), False), (Fixed(), False)],
    ids=["right", "too few of an image", "too few of a batch", "not the fixed count"],
)
def test_a_bound_that_would_cut_the_loss_is_refused(mask: Wrong, right: bool) -> None:
    objective, images = Masked(mask=replace(mask, ratio=0.5)), torch.zeros(4, 3, 8, 8, dtype=torch.uint8)
    codec, draw = BytesSpec().placeholder(Grid(8, 8)), generator(0, "batch")
    if right:
        assert objective.make_batch(images, codec, draw).loss_mask.any()
        return
    with pytest.raises(
        ValueError, match=r"masks \d+ of 64 positions each of 4 images; its max_positions says"
    ):
        objective.make_batch(images, codec, draw)
