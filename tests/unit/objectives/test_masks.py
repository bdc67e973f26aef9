import math
import re
from typing import Any

import pytest
import torch

from isopix.core.random import generator
from isopix.core.types import Grid, Mask
from isopix.objectives.base import PretrainModel, TrainingBatch
from isopix.objectives.masks import BernoulliMask, BlockMask, MaskSpec, PerChannelMask
from isopix.objectives.objectives import Masked
from isopix.recipes import registry

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


class Half(MaskSpec):
    """Masks half of the positions, and says what a test wants about it."""

    kind = "half"
    bound: int = 1000
    shape: str = "right"

    def sample(self, batch: int, grid: Grid, num_codes: int, generator: torch.Generator) -> Any:
        mask = torch.rand(batch, grid.positions, 1, generator=generator) < 0.5
        wrong: dict[str, Any] = {
            "grid": mask.view(batch, grid.rows, grid.cols),
            "flat": mask[..., 0],
            "codes": mask.expand(-1, -1, num_codes),
            "float": mask.float(),
            "list": mask.tolist(),
        }
        return wrong.get(self.shape, mask)

    def expected_fraction(self, positions: int, num_codes: int) -> float:
        return 0.5

    def max_positions(self, images: int, positions: int, num_codes: int) -> int:
        return self.bound * images


def batch_of(mask: MaskSpec, **settings: Any) -> tuple[PretrainModel, TrainingBatch]:
    words = [
        "codec=bytes",
        "stem=linear_pixel_embedding",
        "depth=1",
        "width=8",
        "heads=1",
        "objective=masked",
    ]
    recipe = registry.resolve("igpt.digits", assignments=words).recipe
    codec = recipe.model.codec.placeholder(recipe.grid)
    objective = Masked(mask=mask, **settings)
    model = PretrainModel(recipe.updated(objective=objective).build(codec), objective)
    return model, model.make_batch(torch.zeros(4, 3, 8, 8, dtype=torch.uint8), generator(0, "batch"))


@pytest.mark.parametrize("deterministic", [False, True])
def test_a_bound_that_would_cut_the_loss_is_refused(deterministic: bool) -> None:
    message = r"mask half masks \d+ positions of 1 images of 64; its max_positions allows 20"
    with pytest.raises(ValueError, match=message):
        batch_of(Half(bound=20), deterministic_mask=deterministic)
    batch_of(Half(bound=64), deterministic_mask=deterministic)


def test_a_bound_of_a_batch_alone_is_checked_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Half, "max_positions", lambda self, images, positions, codes: 64)
    with pytest.raises(ValueError, match=r"mask half masks \d+ positions of 4 images .* allows 64"):
        batch_of(Half())


def test_an_objective_whose_bound_would_cut_the_loss_is_refused_at_an_evaluation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model, batch = batch_of(Half())
    expected = model.eval_loss(batch)
    count = int(batch.loss_mask.sum())
    monkeypatch.setattr(Masked, "max_loss_positions", lambda self, batch: count)
    torch.testing.assert_close(model.eval_loss(batch), expected)
    monkeypatch.setattr(Masked, "max_loss_positions", lambda self, batch: count - 1)
    with pytest.raises(ValueError, match=f"objective masked has {count} positions .* allows {count - 1}$"):
        model.eval_loss(batch)


@pytest.mark.parametrize(
    ("shape", "given"),
    [
        ("grid", "bool [4, 8, 8] on cpu"),
        ("flat", "bool [4, 64] on cpu"),
        ("codes", "bool [4, 64, 3] on cpu"),
        ("float", "float32 [4, 64, 1] on cpu"),
        ("list", "list"),
    ],
)
def test_a_mask_of_a_wrong_shape_is_named(shape: str, given: str) -> None:
    with pytest.raises(
        ValueError, match=re.escape(f"mask half samples {given}; allowed: bool [4, 64, 1] on")
    ):
        batch_of(Half(shape=shape))


class SometimesLess(BlockMask):
    """Claims the fixed count of its base class, and masks one position fewer in the last image."""

    kind = "sometimes_less"

    def sample(self, batch: int, grid: Grid, num_codes: int, generator: torch.Generator) -> Mask:
        mask = super().sample(batch, grid, num_codes, generator)
        mask[-1, mask[-1, :, 0].nonzero()[0]] = False
        return mask


def test_a_mask_without_its_fixed_count_is_refused() -> None:
    with pytest.raises(ValueError, match=r"masks 31 positions of an image of 64; .* max_positions, 32, in"):
        batch_of(SometimesLess(ratio=0.5, side=1))


def test_the_number_of_visible_positions_is_known_of_masks_of_fixed_count_that_hide_all_they_choose() -> None:
    assert Masked(mask=BlockMask(ratio=0.5)).num_visible(64, 1) == 32
    assert Masked(mask=BlockMask(ratio=0.25, side=1)).num_visible(64, 3) == 48
    assert Masked(mask=BernoulliMask()).num_visible(64, 1) is None
    for rate in ("random_rate", "keep_rate"):
        assert Masked(mask=BlockMask(), **{rate: 0.1}).num_visible(64, 1) is None


def test_a_batch_with_another_number_of_visible_positions_is_refused_at_an_evaluation() -> None:
    model, batch = batch_of(BlockMask(ratio=0.5))
    model.eval_loss(batch)
    batch.mask[1] = False
    with pytest.raises(ValueError, match=r"masked has 32 to 64 visible .* its num_visible says 32$"):
        model.eval_loss(batch)
