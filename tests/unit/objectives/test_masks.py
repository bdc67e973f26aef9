"""Masks: which positions are masked, how many, which are replaced and kept; the loss decodes these alone."""

import math
from dataclasses import replace

import pytest
import torch

from isopix.codecs.patches import BytesSpec, MeanColorSpec
from isopix.core.random import generator
from isopix.core.types import Grid
from isopix.data.dataset import DataConfig
from isopix.model.blocks.convolution import ConvolutionSpec
from isopix.model.masking import MaskTokenMaskingSpec
from isopix.model.spec import ModelSpec
from isopix.objectives.base import PretrainModel, nll_per_image
from isopix.objectives.masks import BernoulliMask, BlockMask, MaskSpec, PerChannelMask
from isopix.objectives.objectives import Masked, keep_or_swap
from isopix.recipes.recipe import Recipe
from tests.peak_memory import LargestTensor

GRID, PATCHES = Grid(32, 32), Grid(14, 14)


@pytest.mark.parametrize("ratio", [0.15, 0.5])
@pytest.mark.parametrize("kind", [BernoulliMask, PerChannelMask])
def test_the_masked_fraction_is_the_ratio_within_three_std(kind: type[MaskSpec], ratio: float) -> None:
    mask = kind(ratio=ratio).sample(64, GRID, 3, generator(0, "masks"))
    deviation = math.sqrt(ratio * (1 - ratio) / mask.numel())
    assert float(mask.float().mean()) == pytest.approx(ratio, abs=3 * deviation)
    whole = kind(ratio=ratio).expected_fraction(GRID.positions, 3)
    assert float(mask.any(-1).float().mean()) == pytest.approx(whole, abs=3 * deviation)


@pytest.mark.parametrize("mask", [BernoulliMask(), PerChannelMask()])
def test_the_bound_on_masked_positions_is_never_exceeded(mask: MaskSpec) -> None:
    for batch, grid in ((1, Grid(2, 2)), (4, Grid(8, 8)), (32, GRID)):
        most = mask.max_positions(batch, grid.positions, 3)
        drawn = [
            int(mask.sample(batch, grid, 3, generator(0, "masks", step)).any(-1).sum()) for step in range(200)
        ]
        assert max(drawn) <= most <= batch * grid.positions


class Wrong(BernoulliMask):
    """Masks half of the positions, and says that these are at most `one` of an image and `all` of a batch."""

    kind = "wrong"
    one: int = 64
    all: int = 256

    def max_positions(self, images: int, positions: int, num_codes: int) -> int:
        return self.one if images == 1 else self.all


@pytest.mark.parametrize(
    ("mask", "right"),
    [(Wrong(), True), (Wrong(one=20), False), (Wrong(all=64), False)],
    ids=["right", "too few of an image", "too few of a batch"],
)
def test_a_bound_that_would_cut_the_loss_is_refused(mask: Wrong, right: bool) -> None:
    objective, images = Masked(mask=replace(mask, ratio=0.5)), torch.zeros(4, 3, 8, 8, dtype=torch.uint8)
    codec, draw = BytesSpec().placeholder(Grid(8, 8)), generator(0, "batch")
    if right:
        assert objective.make_batch(images, codec, draw).loss_mask.any()
        return
    with pytest.raises(ValueError, match=r"masks \d+ of 64 positions each of 4 images; its max_positions"):
        objective.make_batch(images, codec, draw)


VIT = Masked(mask=BernoulliMask(ratio=0.5), corruption=MaskTokenMaskingSpec(), random_rate=0.1, keep_rate=0.1)


def images(count: int = 16) -> torch.Tensor:
    shape = (count, 3, 28, 28)
    return torch.randint(256, shape, dtype=torch.uint8, generator=generator(0, "images"))


def test_of_the_chosen_eight_tenths_are_masked_one_replaced_and_one_kept() -> None:
    chosen = BernoulliMask(ratio=0.5).sample(200, PATCHES, 1, generator(0, "mask"))
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


def test_the_papers_mask_has_29_squares_of_four_or_118_patches() -> None:
    mask = BlockMask().sample(20, PATCHES, 64, generator(0, "mask"))[..., 0]
    assert mask.sum(1).tolist() == [116] * 20
    squares = mask.view(20, 7, 2, 7, 2).float().mean((2, 4))
    assert set(squares.unique().tolist()) == {0.0, 1.0}
    assert BlockMask().expected_fraction(196, 64) == 116 / 196
    exact = BlockMask(exact_count=118).sample(20, PATCHES, 64, generator(0, "mask"))[..., 0]
    assert exact.sum(1).tolist() == [118] * 20
    partly = exact.view(20, 7, 2, 7, 2).float().mean((2, 4))
    assert len(partly.unique()) == 5


def test_deterministic_masks_are_a_function_of_the_pixels_alone() -> None:
    objective = replace(VIT, keep_rate=0.0, deterministic_mask=True)
    x, codec = images(4), MeanColorSpec(patch_size=2).build(PATCHES)
    first = objective.make_batch(x, codec, generator(0, "problem", 0))
    again = objective.make_batch(x.flip(0), codec, generator(0, "problem", 7))
    assert torch.equal(first.mask, again.mask.flip(0))
    assert torch.equal(first.inputs, again.inputs.flip(0))
    assert not torch.equal(first.mask[0], first.mask[1])


IMAGES, SIDE = 16, 16


def build(mask: MaskSpec) -> PretrainModel:
    network = ModelSpec(codec=BytesSpec(), block=ConvolutionSpec(), depth=1, width=8)
    data = DataConfig(rows=SIDE, cols=SIDE)
    recipe = Recipe(name="memory", model=network, data=data, objective=Masked(mask=mask))
    return PretrainModel(recipe.build(network.codec.placeholder(recipe.grid)), recipe.objective)


@pytest.mark.parametrize(("mask", "fraction"), [(BernoulliMask(), 0.15), (PerChannelMask(), 1 - 0.85**3)])
def test_no_tensor_is_as_large_as_the_logits_of_all_positions(mask: MaskSpec, fraction: float) -> None:
    """The largest are the logits of the positions in the loss, with eight standard deviations to spare."""
    model = build(mask)
    images = torch.randint(256, (IMAGES, 3, SIDE, SIDE), dtype=torch.uint8, generator=generator(0, "images"))
    batch = model.make_batch(images, generator(0, "mask"))
    with LargestTensor() as largest:
        model(batch).backward()
    positions = IMAGES * SIDE * SIDE
    most = fraction * positions + 8 * math.sqrt(positions * fraction * (1 - fraction)) + 9
    assert 0.9 * fraction * positions * 768 < largest.elements <= most * 768
    with LargestTensor() as largest, torch.no_grad():
        nll_per_image(model.network, batch)
    assert largest.elements == batch.loss_mask.any(-1).sum() * 768
