"""Laws of what a position may see."""

import pytest
import torch
from einops import rearrange
from torch import Tensor

from isopix.core.random import generator
from isopix.core.types import Mask
from isopix.model.norms import LayerNormSpec, NormSpec, RMSNormSpec
from isopix.recipes.recipe import Recipe
from tests.laws import cases


def at(recipe: Recipe, position: int) -> Mask:
    """One position."""
    return (torch.arange(recipe.grid.positions) == position)[None, :, None]


@pytest.mark.parametrize("recipe", cases.CASES, ids=cases.title)
def test_no_position_sees_its_own_answer(recipe: Recipe) -> None:
    """Change what is graded of a position, and not kept in sight on purpose (ViT's 80/10/10): the state that
    answers for it does not move at all.
    """
    net = cases.busy(recipe)
    x = cases.images(recipe, 1)
    problem = net.prepare(x, generator(0, "law"))
    secret = problem.graded if problem.hidden is None else problem.graded & problem.hidden
    before = net.backbone(x, problem.hidden)
    for position in secret[0].any(-1).nonzero()[:, 0].tolist():
        graded = secret & at(recipe, position)
        after = net.backbone(cases.flipped(x, graded), problem.hidden)
        assert torch.equal(before[0, position], after[0, position])


@pytest.mark.parametrize("recipe", cases.autoregressive(), ids=cases.title)
def test_a_pixel_reaches_only_what_comes_after_it(recipe: Recipe) -> None:
    net = cases.busy(recipe)
    x = cases.images(recipe, 1)
    before = net.logits(x)
    last = recipe.grid.positions - 1
    for position in range(recipe.grid.positions):
        changed = cases.flipped(x, at(recipe, position))
        moved = (net.logits(changed) - before).abs().amax((0, 2, 3)) > 1e-5
        assert not moved[: position + 1].any()
        same_code = torch.equal(net.codec.encode(changed), net.codec.encode(x))
        assert same_code or position == last or moved[position + 1 :].any()


@pytest.mark.parametrize("recipe", cases.masked(), ids=cases.title)
def test_hidden_pixels_never_reach_any_answer(recipe: Recipe) -> None:
    net = cases.busy(recipe)
    x = cases.images(recipe, 2)
    hidden = net.prepare(x, generator(0, "law")).hidden
    other = cases.flipped(x, hidden)
    assert torch.equal(cases.numbers(net, x, hidden), cases.numbers(net, other, hidden))


@pytest.mark.parametrize("recipe", cases.masked(), ids=cases.title)
def test_what_is_not_hidden_is_seen(recipe: Recipe) -> None:
    """Also the other channels of a pixel of which one is hidden: the stem leaves out that part alone."""
    net = cases.busy(recipe)
    x = cases.images(recipe, 2)
    hidden = net.prepare(x, generator(0, "law")).hidden
    partly = hidden.any(-1, keepdim=True) & ~hidden
    shown = partly if partly.any() else ~hidden
    enter, other = net.backbone.enter, cases.flipped(x, shown)
    before, after = (net.backbone.placed(enter(each, hidden)) for each in (x, other))
    seen = shown.any(-1)
    changed = (net.codec.encode(x) != net.codec.encode(other)).any(-1)
    if net.backbone.masking.drops:  # at hidden positions stands what has been pooled of all others
        changed &= seen
    assert ((before != after).any(-1) == seen)[changed].all()


def permuted(recipe: Recipe) -> tuple[Tensor, Tensor]:
    """Answers before and after permuting pixels and position vectors together, in the same order."""
    net = cases.busy(recipe)
    x = cases.images(recipe, 2)
    order = torch.randperm(recipe.grid.positions, generator=torch.Generator().manual_seed(5))
    before = cases.numbers(net, x)
    cell = recipe.model.codec.patch_size
    cells = rearrange(x, "b c (h p) (w q) -> b (h w) c p q", p=cell, q=cell)[:, order]
    shuffled = rearrange(cells, "b (h w) c p q -> b c (h p) (w q)", h=recipe.grid.rows)
    with torch.no_grad():
        for vectors in net.backbone.positions.parameters():
            vectors.copy_(vectors[order])
    return before[:, order], cases.numbers(net, shuffled)


def of(recipes: list[Recipe]) -> list[Recipe]:
    """Those with attention and a free vector for each place; other blocks have places of their own."""
    attentive = [recipe for recipe in recipes if recipe in cases.attentive()]
    return [each for each in attentive if each.positions.kind != "factorised"]


@pytest.mark.parametrize(
    "recipe", [each for each in of(cases.masked()) if not each.objective.causal], ids=cases.title
)
def test_attention_knows_places_by_their_vectors_alone(recipe: Recipe) -> None:
    """iGPT section 2.2."""
    torch.testing.assert_close(*permuted(recipe), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("recipe", of(cases.autoregressive()), ids=cases.title)
def test_an_autoregressive_network_also_knows_an_order(recipe: Recipe) -> None:
    before, after = permuted(recipe)
    assert (before - after).abs().max() > 0.1


@pytest.mark.parametrize("recipe", cases.CASES, ids=cases.title)
def test_a_block_of_zeros_is_the_identity(recipe: Recipe) -> None:
    block = recipe.model.block.build(recipe.grid, recipe.model.width, recipe.objective.causal)
    for parameter in block.parameters():
        torch.nn.init.zeros_(parameter)
    tokens = torch.randn(
        2, recipe.grid.positions, recipe.model.width, generator=torch.Generator().manual_seed(0)
    )
    assert torch.equal(block(tokens), tokens)


@pytest.mark.parametrize(
    ("norm", "moved"), [(RMSNormSpec(), True), (LayerNormSpec(), False)], ids=["ours", "layer"]
)
def test_our_norm_alone_does_not_subtract_the_mean(norm: NormSpec, moved: bool) -> None:
    built = norm.build(16)
    x = torch.randn(2, 16, generator=torch.Generator().manual_seed(0))
    assert torch.allclose(built(x + 1), built(x), atol=1e-5) is not moved


@pytest.mark.parametrize("width", [1, 16])
def test_our_norm_divides_by_the_root_of_the_mean_square(width: int) -> None:
    x = torch.randn(2, width, generator=torch.Generator().manual_seed(0))
    expected = x / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt()
    torch.testing.assert_close(RMSNormSpec().build(width)(x), expected)
