"""Attention: its weights, dropped positions, and what one query reads."""

import math

import pytest
import torch
from torch import Tensor, nn

from isopix.codecs.palette_spec import PaletteSpec
from isopix.core.random import generator
from isopix.core.types import Grid, Mask
from isopix.data.dataset import DataConfig
from isopix.model.attention import Attention
from isopix.model.blocks.axial import AxialSpec
from isopix.model.caches import AttentionCache
from isopix.model.masking import DropMaskingSpec
from isopix.model.network import Network
from isopix.objectives.masks import BernoulliMask, BlockMask, MaskSpec
from isopix.recipes.recipe import Recipe
from tests.laws import cases


def drawn(causal: bool) -> tuple[Attention, torch.Tensor]:
    attention = Attention(12, 3, causal, True).double()
    draw = generator(0, "test.attention")
    cases.randomize(attention, draw)
    return attention, torch.randn(2, 7, 12, generator=draw, dtype=torch.float64)


@pytest.mark.parametrize("causal", [False, True])
def test_weights_times_values_are_the_output(causal: bool) -> None:
    """By a loop over images, heads and positions that knows nothing of the module but its matrices."""
    attention, tokens = drawn(causal)
    weights, size = attention.weights(tokens), 12 // 3
    values = (tokens @ attention.qkv.weight[24:].T + attention.qkv.bias[24:]).unflatten(-1, (3, size))
    output = torch.zeros(2, 7, 12, dtype=torch.float64)
    for b in range(2):
        for h in range(3):
            for i in range(7):
                for j in range(7):
                    output[b, i, h * size : (h + 1) * size] += weights[b, h, i, j] * values[b, j, h]
    expected = output @ attention.out.weight.T + attention.out.bias
    torch.testing.assert_close(attention(tokens), expected)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 3, 7, dtype=torch.float64))
    assert bool((weights.triu(1) == 0).all()) == causal


def test_all_blocks_but_the_middle_one_see_the_rows_given() -> None:
    codec, data = PaletteSpec(num_colors=2), DataConfig(rows=4, cols=3)
    recipe = cases.LAW.updated(codec=codec, data=data, depth=3, attention_rows=2)
    network = cases.busy(recipe)
    before = torch.arange(12)[:, None] - torch.arange(12)
    first, middle, last = network.backbone.attention_weights(network.inputs_of(cases.images(recipe)))
    assert torch.equal(middle[0, 0] > 0, before >= 0)
    assert all(torch.equal(each[0, 0] > 0, (before >= 0) & (before < 6)) for each in (first, last))


def test_normed_queries_and_keys_have_products_of_the_given_scale() -> None:
    attention, tokens = drawn(causal=False)
    attention.qk_norm_scale = 0.5
    q, k = (tokens @ attention.qkv.weight[:24].T + attention.qkv.bias[:24]).unflatten(-1, (2, 3, 4)).unbind(2)
    q, k = (each / each.square().mean(-1, keepdim=True).sqrt() for each in (q, k))
    expected = (torch.einsum("bnhe,bmhe->bhnm", q, k) * 0.5).softmax(-1)
    torch.testing.assert_close(attention.weights(tokens), expected)


@pytest.mark.parametrize(("amx", "compiling"), [(True, False), (False, False), (False, True)])
@pytest.mark.parametrize("samples", [1, 3])
def test_without_amx_one_query_reads_rounded_keys_and_values_but_rounds_no_product(
    monkeypatch: pytest.MonkeyPatch, samples: int, amx: bool, compiling: bool
) -> None:
    """The last of 7 positions, 4 of them a prompt; by hand, in float64."""
    monkeypatch.setattr("isopix.model.attention.has_matrix_units", lambda: amx)
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: compiling)
    attention, tokens = drawn(causal=True)
    attention, tokens = attention.float(), tokens.float().repeat_interleave(samples, 0)
    tokens[:, 4:] += torch.arange(2.0 * samples)[:, None, None]  # samples differ after the prompt
    cache = AttentionCache(7)
    cache.keep_in(torch.bfloat16)
    attention.forward_cached(tokens[::samples, :4], cache)
    cache.repeat_batch(samples)
    for position in (4, 5, 6):
        found = attention.forward_cached(tokens[:, position : position + 1], cache)
    q, k, v = attention.qkv(tokens).double().unflatten(-1, (3, 3, 4)).unbind(2)
    k, v = k.bfloat16().double(), v.bfloat16().double()
    weights = (torch.einsum("bhe,bjhe->bhj", q[:, -1], k) / 2).softmax(-1)
    attended = torch.einsum("bhj,bjhe->bhe", weights, v).flatten(1)
    expected = attended @ attention.out.weight.double().T + attention.out.bias.double()
    error = (found[:, 0] - expected).abs().max() / expected.abs().max()
    assert error < (0.02 if amx else 1e-6)


def test_axial_weights_are_those_of_rows_then_of_columns() -> None:
    grid = Grid(3, 4)
    block = AxialSpec(heads=2).build(grid, 6, causal=False).double()
    draw = generator(0, "test.axial")
    cases.randomize(block, draw)
    tokens = torch.randn(2, 12, 6, generator=draw, dtype=torch.float64)
    rows, cols = block.attention_weights(tokens)
    place = torch.arange(12)
    same_row = place[:, None] // 4 == place // 4
    same_col = place[:, None] % 4 == place % 4
    assert (rows[..., ~same_row] == 0).all()
    assert (cols[..., ~same_col] == 0).all()
    assert block.attention_axes(grid) == [(Grid(1, 4), "rows"), (Grid(3, 1), "columns")]
    for weights in (rows, cols):
        torch.testing.assert_close(weights.sum(-1), torch.ones(2, 2, 12, dtype=torch.float64))
    [second] = block.rows.attention_weights(tokens[:, 4:8])
    torch.testing.assert_close(rows[:, :, 4:8, 4:8], second)
    halfway = torch.cat([block.rows(row) for row in tokens.split(4, 1)], 1)
    [third] = block.cols.attention_weights(halfway[:, 2::4])
    torch.testing.assert_close(cols[:, :, 2::4, 2::4], third)


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
    blocks = (each for each in CASES if isinstance(each.objective.mask, BlockMask))
    recipe = next(each for each in blocks if each.model.class_token)
    model, lengths = cases.model(recipe), list[int]()
    block = model.network.backbone.blocks[0]
    block.register_forward_pre_hook(lambda block, given: lengths.append(given[0].shape[1]))
    model(model.make_batch(cases.images(recipe), generator(0, "mask")))
    assert set(lengths) == {1 + recipe.grid.positions // 2}
