"""80, 10 and 10 %: what is hidden, what is shown as another, and what stays."""

import pytest
import torch

from isopix.codecs import MeanColorSpec
from isopix.core.random import generator
from isopix.core.types import Grid
from isopix.model.masking import DropMaskingSpec, MaskTokenMaskingSpec
from isopix.objectives.bert_corruption import keep_or_swap
from isopix.objectives.masked import Masked
from isopix.objectives.masks import BernoulliMask, BlockMask, PerChannelMask

GRID = Grid(14, 14)
VIT = Masked(mask=BernoulliMask(ratio=0.5), corruption=MaskTokenMaskingSpec(), swapped=0.1, kept=0.1)


def images(count: int = 16) -> torch.Tensor:
    shape = (count, 3, 28, 28)
    return torch.randint(256, shape, dtype=torch.uint8, generator=generator(0, "images"))


def test_of_the_chosen_eight_tenths_are_hidden_one_is_swapped_and_one_kept() -> None:
    chosen = BernoulliMask(ratio=0.5).draw(200, GRID, 1, generator(0, "mask"))
    found = keep_or_swap(chosen, swapped=0.1, kept=0.1, draw=generator(1, "mask"))
    assert torch.equal(found.graded, chosen)
    assert not (found.hidden & ~chosen).any()
    moved = found.source != torch.arange(196)
    count = chosen.sum()
    assert float(found.hidden.sum() / count) == pytest.approx(0.8, abs=0.01)
    assert float(moved.sum() / count) == pytest.approx(0.1, abs=0.01)
    assert not (moved & (found.hidden | ~chosen)[..., 0]).any()


def test_what_is_shown_elsewhere_was_not_chosen() -> None:
    """Else a hidden patch would be given away at another place."""
    chosen = BernoulliMask(ratio=0.9).draw(50, Grid(2, 3), 1, generator(0, "mask"))
    found = keep_or_swap(chosen, swapped=0.9, kept=0.0, draw=generator(1, "mask"))
    moved = found.source != torch.arange(6)
    taken = chosen[..., 0].gather(1, found.source)
    assert moved.any()
    assert not taken[moved].any()
    everything = torch.ones(3, 6, 1, dtype=torch.bool)
    assert torch.equal(
        keep_or_swap(everything, swapped=1.0, kept=0.0, draw=generator(0, "mask")).source,
        torch.arange(6).expand(3, 6),
    )


def test_any_patch_that_was_not_chosen_is_shown_as_often() -> None:
    """Whichever lot a swapped position has drawn: early and late ones among those that are free."""
    chosen = BernoulliMask(ratio=0.5).draw(400, GRID, 1, generator(0, "mask"))
    found = keep_or_swap(chosen, swapped=0.1, kept=0.1, draw=generator(1, "mask"))
    moved = found.source != torch.arange(196)
    free = ~chosen[..., 0]
    rank = (free.cumsum(1) - 1) / free.sum(1, keepdim=True)  # of each free one, in [0, 1)
    ranks = rank.gather(1, found.source)[moved]
    tenths = torch.histc(ranks, 10, 0, 1) / len(ranks)
    assert tenths.tolist() == pytest.approx([0.1] * 10, abs=0.02)


def test_swapped_patches_change_what_is_shown_and_not_what_is_asked() -> None:
    x, codec = images(), MeanColorSpec(patch_size=2).build(GRID)
    problem = VIT.prepare(x, codec, generator(0, "problem"))
    assert torch.equal(problem.answers, codec.encode(x))
    changed = (codec.encode(problem.images) != problem.answers).any(-1)
    assert changed.any()
    assert not (changed & (problem.hidden | ~problem.graded)[..., 0]).any()


def test_the_papers_mask_hides_29_squares_of_four_or_118_patches() -> None:
    hidden = BlockMask().draw(20, GRID, 64, generator(0, "mask"))[..., 0]
    assert hidden.sum(1).tolist() == [116] * 20
    squares = hidden.view(20, 7, 2, 7, 2).float().mean((2, 4))
    assert set(squares.unique().tolist()) == {0.0, 1.0}
    assert BlockMask().touched(196, 64) == 116 / 196
    exact = BlockMask(exact_count=118).draw(20, GRID, 64, generator(0, "mask"))[..., 0]
    assert exact.sum(1).tolist() == [118] * 20
    partly = exact.view(20, 7, 2, 7, 2).float().mean((2, 4))
    assert len(partly.unique()) == 5


def test_every_square_is_hidden_as_often() -> None:
    hidden = BlockMask().draw(2000, GRID, 64, generator(0, "mask"))[..., 0].float().mean(0)
    assert float(hidden.min()) > 0.54
    assert float(hidden.max()) < 0.64


@pytest.mark.parametrize(("static", "alike"), [(True, True), (False, False)])
def test_static_masks_are_a_function_of_the_pixels_alone(static: bool, alike: bool) -> None:
    objective = Masked(
        mask=BernoulliMask(ratio=0.5), corruption=MaskTokenMaskingSpec(), swapped=0.1, static=static
    )
    x, codec = images(4), MeanColorSpec(patch_size=2).build(GRID)
    first = objective.prepare(x, codec, generator(0, "problem", 0))
    again = objective.prepare(x.flip(0), codec, generator(0, "problem", 7))
    assert torch.equal(first.hidden, again.hidden.flip(0)) is alike
    assert torch.equal(first.images, again.images.flip(0)) is alike
    assert not torch.equal(first.hidden[0], first.hidden[1])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Masked(swapped=0.6, kept=0.6), "swapped 0.6 and kept 0.6 must be shares of one whole"),
        (lambda: Masked(smoothing=1.0), r"smoothing 1.0 must lie in \[0, 1\)"),
        (
            lambda: Masked(mask=PerChannelMask(), corruption=DropMaskingSpec()),
            "mask subpixel hides single codes, which masking",
        ),
        (lambda: BlockMask(side=0), "side 0 and exact_count None must be at least 1"),
        (lambda: BlockMask().require(Grid(7, 7)), "7 x 7 positions cannot be cut into squares of 2 x 2"),
        (lambda: BlockMask().require(Grid(2, 2)), "4 of 4 positions would be hidden; some must be"),
        (
            lambda: BlockMask(exact_count=196).require(GRID),
            "196 of 196 positions would be hidden.* choose another objective.mask.exact_count$",
        ),
        (
            lambda: BlockMask(ratio=0.999).require(GRID),
            "196 of 196 positions would be hidden.* choose another objective.mask.ratio or side$",
        ),
    ],
)
def test_what_cannot_be_is_refused(make, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
