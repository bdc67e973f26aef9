"""80, 10 and 10 %: which positions are masked, replaced and kept."""

import pytest
import torch

from isopix.codecs.patches import MeanColorSpec
from isopix.core.random import generator
from isopix.core.types import Grid
from isopix.model.masking import DropMaskingSpec, MaskTokenMaskingSpec
from isopix.objectives.masks import BernoulliMask, BlockMask, PerChannelMask
from isopix.objectives.objectives import Masked, keep_or_swap

GRID = Grid(14, 14)
VIT = Masked(mask=BernoulliMask(ratio=0.5), corruption=MaskTokenMaskingSpec(), random_rate=0.1, keep_rate=0.1)


def images(count: int = 16) -> torch.Tensor:
    shape = (count, 3, 28, 28)
    return torch.randint(256, shape, dtype=torch.uint8, generator=generator(0, "images"))


def test_of_the_chosen_eight_tenths_are_masked_one_replaced_and_one_kept() -> None:
    chosen = BernoulliMask(ratio=0.5).sample(200, GRID, 1, generator(0, "mask"))
    found = keep_or_swap(chosen, random_rate=0.1, keep_rate=0.1, generator=generator(1, "mask"))
    assert torch.equal(found.loss_mask, chosen)
    assert not (found.mask & ~chosen).any()
    moved = found.source != torch.arange(196)
    count = chosen.sum()
    assert float(found.mask.sum() / count) == pytest.approx(0.8, abs=0.01)
    assert float(moved.sum() / count) == pytest.approx(0.1, abs=0.01)
    assert not (moved & (found.mask | ~chosen)[..., 0]).any()


def test_the_replacing_position_was_not_chosen() -> None:
    """Otherwise a masked patch would be visible at another position."""
    chosen = BernoulliMask(ratio=0.9).sample(50, Grid(2, 3), 1, generator(0, "mask"))
    found = keep_or_swap(chosen, random_rate=0.9, keep_rate=0.0, generator=generator(1, "mask"))
    moved = found.source != torch.arange(6)
    taken = chosen[..., 0].gather(1, found.source)
    assert moved.any()
    assert not taken[moved].any()
    everything = torch.ones(3, 6, 1, dtype=torch.bool)
    assert torch.equal(
        keep_or_swap(everything, random_rate=1.0, keep_rate=0.0, generator=generator(0, "mask")).source,
        torch.arange(6).expand(3, 6),
    )


def test_all_positions_that_were_not_chosen_replace_equally_often() -> None:
    """Early and late ones among those that are free."""
    chosen = BernoulliMask(ratio=0.5).sample(400, GRID, 1, generator(0, "mask"))
    found = keep_or_swap(chosen, random_rate=0.1, keep_rate=0.1, generator=generator(1, "mask"))
    moved = found.source != torch.arange(196)
    free = ~chosen[..., 0]
    rank = (free.cumsum(1) - 1) / free.sum(1, keepdim=True)  # of each free one, in [0, 1)
    ranks = rank.gather(1, found.source)[moved]
    tenths = torch.histc(ranks, 10, 0, 1) / len(ranks)
    assert tenths.tolist() == pytest.approx([0.1] * 10, abs=0.02)


def test_replaced_patches_change_the_inputs_and_not_the_targets() -> None:
    x, codec = images(), MeanColorSpec(patch_size=2).build(GRID)
    batch = VIT.make_batch(x, codec, generator(0, "problem"))
    assert torch.equal(batch.targets, codec.encode(x))
    changed = (codec.encode(batch.inputs) != batch.targets).any(-1)
    assert changed.any()
    assert not (changed & (batch.mask | ~batch.loss_mask)[..., 0]).any()


def test_the_papers_mask_has_29_squares_of_four_or_118_patches() -> None:
    mask = BlockMask().sample(20, GRID, 64, generator(0, "mask"))[..., 0]
    assert mask.sum(1).tolist() == [116] * 20
    squares = mask.view(20, 7, 2, 7, 2).float().mean((2, 4))
    assert set(squares.unique().tolist()) == {0.0, 1.0}
    assert BlockMask().expected_fraction(196, 64) == 116 / 196
    exact = BlockMask(exact_count=118).sample(20, GRID, 64, generator(0, "mask"))[..., 0]
    assert exact.sum(1).tolist() == [118] * 20
    partly = exact.view(20, 7, 2, 7, 2).float().mean((2, 4))
    assert len(partly.unique()) == 5


def test_every_square_is_masked_equally_often() -> None:
    mask = BlockMask().sample(2000, GRID, 64, generator(0, "mask"))[..., 0].float().mean(0)
    assert float(mask.min()) > 0.54
    assert float(mask.max()) < 0.64


@pytest.mark.parametrize(("deterministic", "same"), [(True, True), (False, False)])
def test_deterministic_masks_are_a_function_of_the_pixels_alone(deterministic: bool, same: bool) -> None:
    objective = Masked(
        mask=BernoulliMask(ratio=0.5),
        corruption=MaskTokenMaskingSpec(),
        random_rate=0.1,
        deterministic_mask=deterministic,
    )
    x, codec = images(4), MeanColorSpec(patch_size=2).build(GRID)
    first = objective.make_batch(x, codec, generator(0, "problem", 0))
    again = objective.make_batch(x.flip(0), codec, generator(0, "problem", 7))
    assert torch.equal(first.mask, again.mask.flip(0)) is same
    assert torch.equal(first.inputs, again.inputs.flip(0)) is same
    assert not torch.equal(first.mask[0], first.mask[1])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: Masked(random_rate=0.6, keep_rate=0.6),
            "random_rate 0.6 and keep_rate 0.6 must be at least 0 and sum to at most 1",
        ),
        (
            lambda: Masked(mask=PerChannelMask(), corruption=DropMaskingSpec()),
            "mask per_channel masks single codes, which corruption drop cannot",
        ),
        (lambda: BlockMask().check_grid(Grid(7, 7)), "7 x 7 positions cannot be cut into squares of 2 x 2"),
        (lambda: BlockMask().check_grid(Grid(2, 2)), "4 of 4 positions would be masked; at least one"),
        (
            lambda: BlockMask(exact_count=196).check_grid(GRID),
            "196 of 196 positions would be masked.* choose another objective.mask.exact_count$",
        ),
    ],
)
def test_invalid_settings_are_refused(make, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
