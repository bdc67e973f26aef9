"""Dropping hidden positions is full attention that is told not to look at them."""

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from isopix.core.random import generator
from isopix.core.types import Mask
from isopix.model.masking import DropMaskingSpec
from isopix.model.positions import FactorizedPositionEmbeddingSpec
from isopix.objectives.masked import Masked
from isopix.objectives.masks import BernoulliMask, BlockMask
from tests.laws import cases

CASES = [each for each in cases.masked() if isinstance(each.objective.corruption, DropMaskingSpec)]


def restricted(block: nn.Module, tokens: Tensor, seen: Tensor) -> Tensor:
    """One pre-norm transformer block in plain arithmetic, its softmax over the seen positions alone."""
    heads = block.attention.heads
    q, k, v = (
        each.view(*tokens.shape[:2], heads, -1).transpose(1, 2)
        for each in block.attention.qkv(block.norm1(tokens)).chunk(3, -1)
    )
    scores = q @ k.transpose(2, 3) / math.sqrt(q.shape[-1])
    scores = scores.masked_fill(~seen[:, None, None, :], -torch.inf)
    mixed = (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)
    tokens = tokens + block.attention.out(mixed)
    return tokens + block.mlp(block.norm2(tokens))


def reference(net: nn.Module, x: Tensor, hidden: Mask, *, norm_positions: bool) -> Tensor:
    """All positions go through all blocks; nobody looks at the hidden ones."""
    backbone = net.backbone
    tokens, seen = backbone.enter(x), ~hidden[..., 0]
    if backbone.token is not None:
        seen = torch.cat([torch.ones(len(x), 1, dtype=torch.bool), seen], 1)
    for block in backbone.blocks:
        tokens = restricted(block, tokens, seen)
    pooled = tokens[:, :1] if backbone.token is not None else _mean(tokens, seen)
    places = backbone.positions(torch.zeros(1, backbone.grid.positions, tokens.shape[-1]).to(tokens))
    asked = backbone.norm(pooled) + (backbone.place_norm(places) if norm_positions else places)
    return net.head(torch.where(hidden, asked, backbone.norm(backbone.placed(tokens))))


def _mean(tokens: Tensor, seen: Tensor) -> Tensor:
    return (tokens * seen[..., None]).sum(1, keepdim=True) / seen.sum(1)[:, None, None]


@pytest.mark.parametrize("recipe", CASES, ids=cases.title)
@pytest.mark.parametrize("mask", [BlockMask(ratio=0.5), BernoulliMask(ratio=0.4)], ids=["as many", "ragged"])
def test_dropping_equals_attention_restricted_to_the_visible(recipe, mask) -> None:
    net = cases.busy(recipe).double()
    x = cases.images(recipe, 4)
    hidden = mask.draw(4, recipe.grid, recipe.model.codec.build(recipe.grid).num_codes, generator(1, "mask"))
    expected = reference(net, x, hidden, norm_positions=recipe.objective.corruption.norm_positions)
    torch.testing.assert_close(cases.numbers(net, x, hidden), expected, rtol=1e-8, atol=1e-8)


def test_hidden_patches_cost_the_blocks_nothing() -> None:
    recipe = next(
        each for each in CASES if isinstance(each.objective.mask, BlockMask) and each.model.class_token
    )
    assert isinstance(recipe.objective, Masked)
    net, x = cases.network(recipe), cases.images(recipe)
    lengths = []
    net.backbone.blocks[0].register_forward_pre_hook(lambda block, given: lengths.append(given[0].shape[1]))
    net(net.prepare(x, generator(0, "mask")))
    assert set(lengths) == {1 + recipe.grid.positions // 2}


def test_the_papers_plain_sum_is_a_case_and_has_a_norm_less() -> None:
    assert DropMaskingSpec(norm_positions=False) in [each.objective.corruption for each in CASES]
    objectives = [
        replace(CASES[0].objective, corruption=DropMaskingSpec(norm_positions=given))
        for given in (True, False)
    ]
    networks = [cases.network(replace(CASES[0], objective=each)) for each in objectives]
    normed, plain = ({name for name, _ in each.named_parameters()} for each in networks)
    assert normed - plain == {"backbone.place_norm.weight", "backbone.place_norm.bias"}
    assert plain < normed


def test_the_place_is_not_lost_however_long_the_pooled_vector_is() -> None:
    """Behind one norm of the sum, what is decoded would be the same at every place."""
    normed = (each for each in CASES if each.objective.corruption == DropMaskingSpec())
    recipe = next(
        each for each in normed if each.class_token and each.positions == FactorizedPositionEmbeddingSpec()
    )
    net, x = cases.network(recipe).double(), cases.images(recipe, 1)
    torch.nn.init.normal_(net.backbone.token, std=1000.0, generator=generator(0, "token"))
    hidden = BlockMask(ratio=0.5).draw(1, recipe.grid, 1, generator(1, "mask"))
    one, other = net.backbone(x, hidden)[hidden.expand(-1, -1, recipe.model.width)].view(
        -1, recipe.model.width
    )[[0, -1]]
    assert (one - other).norm() > 0.3 * one.norm()
