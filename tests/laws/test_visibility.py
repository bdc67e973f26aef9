"""Laws of what a position depends on."""

import pytest
import torch
from einops import rearrange
from torch import Tensor

from isopix.core.random import generator
from isopix.core.types import Mask
from isopix.recipes.recipe import Recipe
from tests.laws import cases


def at(recipe: Recipe, position: int) -> Mask:
    """A mask of one position."""
    return (torch.arange(recipe.grid.positions) == position)[None, :, None]


@pytest.mark.parametrize("recipe", cases.CASES, ids=cases.title)
def test_no_position_sees_its_own_target(recipe: Recipe) -> None:
    """Change what is in the loss at a position, and not kept visible on purpose (ViT's 80/10/10): the state
    that predicts it does not change at all.
    """
    model = cases.busy_model(recipe)
    net, x = model.network, cases.images(recipe, 1)
    batch = model.make_batch(x, generator(0, "law"))
    if batch.mask is None and not recipe.objective.can_sample:
        pytest.skip("an objective that shows all of its targets")
    step = int(recipe.objective.predicts_next)
    secret = batch.loss_mask.roll(step, 1)
    secret = secret if batch.mask is None else secret & batch.mask
    before = net.backbone(net.inputs_of(x), batch.mask)
    for position in (secret[0].any(-1).nonzero()[:, 0] - step).tolist():
        changed = cases.flipped(x, secret & at(recipe, position + step))
        after = net.backbone(net.inputs_of(changed), batch.mask)
        assert torch.equal(before[0, position], after[0, position])


@pytest.mark.parametrize("recipe", cases.autoregressive(), ids=cases.title)
def test_a_pixel_changes_later_predictions_only(recipe: Recipe) -> None:
    net = cases.busy(recipe)
    x = cases.images(recipe, 1)
    before = net(net.inputs_of(x))
    last = recipe.grid.positions - 1
    for position in range(recipe.grid.positions):
        changed = cases.flipped(x, at(recipe, position))
        moved = (net(net.inputs_of(changed)) - before).abs().amax((0, 2, 3)) > 1e-5
        assert not moved[: position + 1].any()
        same_code = torch.equal(net.codec.encode(changed), net.codec.encode(x))
        assert same_code or position == last or moved[position + 1 :].any()


@pytest.mark.parametrize("recipe", cases.masked(), ids=cases.title)
def test_masked_pixels_change_no_output(recipe: Recipe) -> None:
    model = cases.busy_model(recipe)
    net, x = model.network, cases.images(recipe, 2)
    mask = model.make_batch(x, generator(0, "law")).mask
    other = cases.flipped(x, mask)
    assert torch.equal(cases.head_output(net, x, mask), cases.head_output(net, other, mask))


@pytest.mark.parametrize("recipe", cases.masked(), ids=cases.title)
def test_what_is_not_masked_is_visible(recipe: Recipe) -> None:
    """Also the other channels of a pixel with one masked: the stem leaves out that component alone."""
    model = cases.busy_model(recipe)
    net, x = model.network, cases.images(recipe, 2)
    backbone, mask = net.backbone, model.make_batch(x, generator(0, "law")).mask
    partly = mask.any(-1, keepdim=True) & ~mask
    shown = partly if partly.any() else ~mask
    other = cases.flipped(x, shown)
    before, after = (backbone.patch_tokens(backbone.embed(net.inputs_of(each), mask)) for each in (x, other))
    visible = shown.any(-1)
    changed = (net.codec.encode(x) != net.codec.encode(other)).any(-1)
    if backbone.masking.drops_tokens:  # masked positions hold what has been pooled of all others
        changed &= visible
    assert ((before != after).any(-1) == visible)[changed].all()


def permuted(recipe: Recipe) -> tuple[Tensor, Tensor]:
    """Outputs before and after permuting pixels and position embeddings together, in the same order."""
    net = cases.busy(recipe)
    x = cases.images(recipe, 2)
    order = torch.randperm(recipe.grid.positions, generator=torch.Generator().manual_seed(5))
    before = cases.head_output(net, x)
    size = recipe.model.codec.patch_size
    patches = rearrange(x, "b c (h p) (w q) -> b (h w) c p q", p=size, q=size)[:, order]
    shuffled = rearrange(patches, "b (h w) c p q -> b c (h p) (w q)", h=recipe.grid.rows)
    with torch.no_grad():
        for vectors in net.backbone.positions.state_dict(keep_vars=True).values():
            vectors.copy_(vectors[order])
    return before[:, order], cases.head_output(net, shuffled)


def position_blind(recipes: list[Recipe]) -> list[Recipe]:
    """Those with attention and a free vector for each position; other blocks tell positions apart."""
    attentive = [recipe for recipe in recipes if recipe in cases.transformers()]
    free = [each for each in attentive if each.model.positions.kind not in ("factorized", "rotary")]
    free = [each for each in free if each.objective.corruption.kind != "decoder"]  # which has its own
    return [each for each in free if not each.model.embedding_conv]


@pytest.mark.parametrize(
    "recipe", [each for each in position_blind(cases.masked()) if not each.objective.causal], ids=cases.title
)
def test_attention_knows_positions_by_their_embeddings_alone(recipe: Recipe) -> None:
    """iGPT section 2.2."""
    torch.testing.assert_close(*permuted(recipe), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("recipe", position_blind(cases.autoregressive()), ids=cases.title)
def test_an_autoregressive_network_also_knows_an_order(recipe: Recipe) -> None:
    before, after = permuted(recipe)
    assert (before - after).abs().max() > 0.1


@pytest.mark.parametrize("recipe", cases.CASES, ids=cases.title)
def test_a_block_of_zeros_is_the_identity(recipe: Recipe) -> None:
    block = recipe.model.block.build(recipe.grid, recipe.model.width, recipe.objective.causal)
    for parameter in block.parameters():
        torch.nn.init.zeros_(parameter)
    shape = 2, recipe.grid.positions, recipe.model.width
    tokens = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    assert torch.equal(block(tokens), tokens)
