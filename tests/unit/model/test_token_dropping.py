"""Dropping masked positions equals full attention restricted to the visible ones."""

import math

import pytest
import torch
from torch import Tensor, nn

from isopix.core.random import generator
from isopix.core.types import Mask
from isopix.model.masking import DropMaskingSpec
from isopix.model.network import Network
from isopix.model.positions import FactorizedPositionEmbeddingSpec
from isopix.objectives.masks import BernoulliMask, BlockMask, MaskSpec
from isopix.recipes.recipe import Recipe
from tests.laws import cases

CASES = [each for each in cases.masked() if isinstance(each.objective.corruption, DropMaskingSpec)]


def restricted(block: nn.Module, tokens: Tensor, visible: Tensor) -> Tensor:
    """One pre-norm transformer block in plain arithmetic, its softmax over the visible positions."""
    heads = block.attention.heads
    q, k, v = (
        each.view(*tokens.shape[:2], heads, -1).transpose(1, 2)
        for each in block.attention.qkv(block.norm1(tokens)).chunk(3, -1)
    )
    scores = q @ k.transpose(2, 3) / math.sqrt(q.shape[-1])
    scores = scores.masked_fill(~visible[:, None, None, :], -torch.inf)
    mixed = (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)
    tokens = tokens + block.attention.out(mixed)
    return tokens + block.mlp(block.norm2(tokens))


def reference(net: Network, x: Tensor, mask: Mask, *, norm_positions: bool) -> Tensor:
    """All positions go through all blocks; none attends to the masked ones."""
    backbone = net.backbone
    tokens, visible = backbone.embed(net.inputs_of(x)), ~mask[..., 0]
    if backbone.cls_token is not None:
        visible = torch.cat([torch.ones(len(x), 1, dtype=torch.bool), visible], 1)
    for block in backbone.layers:
        tokens = restricted(block, tokens, visible)
    pooled = tokens[:, :1] if backbone.cls_token is not None else _mean(tokens, visible)
    embedding = backbone.positions(torch.zeros(1, backbone.grid.positions, tokens.shape[-1]).to(tokens))
    decoded = backbone.norm(pooled) + (backbone.pos_norm(embedding) if norm_positions else embedding)
    return net.head(torch.where(mask, decoded, backbone.norm(backbone.patch_tokens(tokens))))


def _mean(tokens: Tensor, visible: Tensor) -> Tensor:
    return (tokens * visible[..., None]).sum(1, keepdim=True) / visible.sum(1)[:, None, None]


@pytest.mark.parametrize("recipe", CASES, ids=cases.title)
@pytest.mark.parametrize("policy", [BlockMask(ratio=0.5), BernoulliMask(ratio=0.4)], ids=["equal", "ragged"])
def test_dropping_equals_attention_restricted_to_the_visible(recipe: Recipe, policy: MaskSpec) -> None:
    net = cases.busy(recipe).double()
    x = cases.images(recipe, 4)
    mask = policy.sample(4, recipe.grid, net.codec.num_codes, generator(1, "mask"))
    expected = reference(net, x, mask, norm_positions=recipe.objective.corruption.norm_positions)
    torch.testing.assert_close(cases.head_output(net, x, mask), expected, rtol=1e-8, atol=1e-8)


def test_masked_patches_cost_the_blocks_nothing() -> None:
    recipe = next(
        each for each in CASES if isinstance(each.objective.mask, BlockMask) and each.model.class_token
    )
    model, lengths = cases.model(recipe), list[int]()
    block = model.network.backbone.blocks[0]
    block.register_forward_pre_hook(lambda block, given: lengths.append(given[0].shape[1]))
    model(model.make_batch(cases.images(recipe), generator(0, "mask")))
    assert set(lengths) == {1 + recipe.grid.positions // 2}


def test_positions_are_told_apart_however_long_the_pooled_vector_is() -> None:
    """Behind one norm of the sum, all positions would be decoded to the same."""
    normed = (each for each in CASES if each.objective.corruption == DropMaskingSpec())
    recipe = next(each for each in normed if each.model.class_token)
    recipe = recipe.updated(positions=FactorizedPositionEmbeddingSpec())
    net, width = cases.network(recipe).double(), recipe.model.width
    torch.nn.init.normal_(net.backbone.cls_token, std=1000.0, generator=generator(0, "token"))
    mask = BlockMask(ratio=0.5).sample(1, recipe.grid, 1, generator(1, "mask"))
    outputs = net.backbone(net.inputs_of(cases.images(recipe, 1)), mask)
    one, other = outputs[mask.expand(-1, -1, width)].view(-1, width)[[0, -1]]
    assert (one - other).norm() > 0.3 * one.norm()
