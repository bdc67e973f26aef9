"""Fast paths in bf16 on CPUs: attention in blocks, the MLP by SiLU, and large matrices rounded once."""

import math
from contextlib import nullcontext

import pytest
import torch
from torch import Tensor, nn

from isopix.core.random import generator
from isopix.model import attention, blockwise_attention
from isopix.model import network as networks
from isopix.model.attention import Attention
from isopix.model.blockwise_attention import attend_in_blocks
from isopix.model.mlp import TwoLayerMLP, TwoLayerMLPSpec
from isopix.model.network import RoundedLinear, with_rounded_matrices
from isopix.recipes.recipe import Recipe
from tests.laws import cases

SHAPES = {  # queries, keys, causal, window
    "causal": (37, 37, True, None),
    "windows": (37, 37, True, 7),
    "windows of more than a block": (37, 37, True, 20),
    "all keys": (37, 37, False, None),
    "some queries": (5, 37, False, None),
    "one position": (1, 1, True, None),
}


def heads(queries: int, keys: int, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor]:
    draw = generator(0, "heads")
    return tuple(
        torch.randn(3, 2, count, 8, dtype=torch.float64, generator=draw).to(dtype).requires_grad_()
        for count in (queries, keys, keys)
    )


def by_hand(q: Tensor, k: Tensor, v: Tensor, *, causal: bool, window: int | None = None) -> Tensor:
    """In float64, one query after the other."""
    results = []
    for place in range(q.shape[2]):
        seen = slice(max(0, place + 1 - (window or place + 1)), place + 1) if causal else slice(None)
        scores = torch.einsum("bhe,bhne->bhn", q[:, :, place], k[:, :, seen]) / math.sqrt(q.shape[-1])
        weights = scores.exp() / scores.exp().sum(-1, keepdim=True)
        results.append(torch.einsum("bhn,bhne->bhe", weights, v[:, :, seen]))
    return torch.stack(results, 2)


@pytest.mark.parametrize("kept", [0, 2**25])
@pytest.mark.parametrize("scores", [1, 100, 1000, 2**22])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_values_and_gradients_are_those_by_hand(
    monkeypatch: pytest.MonkeyPatch, shape: tuple[int, int, bool, int | None], scores: int, kept: int
) -> None:
    monkeypatch.setattr(blockwise_attention, "KEPT_SCORES", kept)
    monkeypatch.setattr(blockwise_attention, "BLOCK_SCORES", scores)
    monkeypatch.setattr(blockwise_attention, "BLOCK_QUERIES", 16)
    queries, keys, causal, window = shape
    inputs = heads(queries, keys)
    weight = torch.randn(3, 2, queries, 8, dtype=torch.float64, generator=generator(1, "heads"))
    settings = {"causal": causal, "window": window}
    found, expected = attend_in_blocks(*inputs, **settings), by_hand(*inputs, **settings)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    gradients, exact = (torch.autograd.grad(each, inputs, weight) for each in (found, expected))
    torch.testing.assert_close(gradients, exact, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("causal", [True, False])
def test_bf16_differs_by_rounding_only(causal: bool) -> None:
    inputs = heads(600, 600, torch.bfloat16)
    exact = [each.detach().double().requires_grad_() for each in inputs]
    found, expected = attend_in_blocks(*inputs, causal=causal), by_hand(*exact, causal=causal)
    weight = torch.randn(found.shape, dtype=torch.float64, generator=generator(1, "heads"))
    gradients = torch.autograd.grad(found, inputs, weight.bfloat16())
    for ours, theirs in zip(gradients, torch.autograd.grad(expected, exact, weight), strict=True):
        assert float((ours - theirs).norm() / theirs.norm()) < 0.01
    assert float((found - expected).detach().norm() / expected.detach().norm()) < 0.01


@pytest.mark.parametrize(
    ("most", "weights"),
    [(6 * (32 * 32 + 32 * 64), [(6, 32, 32), (6, 32, 64)]), (6 * (32 * 32 + 32 * 64) - 1, [])],
)
def test_few_weights_are_kept_for_the_backward_pass(
    monkeypatch: pytest.MonkeyPatch, most: int, weights: list[tuple[int, int, int]]
) -> None:
    monkeypatch.setattr(blockwise_attention, "BLOCK_QUERIES", 32)
    monkeypatch.setattr(blockwise_attention, "KEPT_SCORES", most)
    inputs, kept = heads(64, 64), list[Tensor]()
    with torch.autograd.graph.saved_tensors_hooks(lambda each: kept.append(each) or each, lambda each: each):
        attend_in_blocks(*inputs, causal=True)
    assert [each.shape for each in kept] == [(6, 64, 8)] * 3 + weights


@pytest.mark.parametrize(
    ("lacks", "bf16", "train", "rounds", "dropout", "used"),
    [
        (True, True, True, False, 0.0, True),
        (True, True, True, False, 0.5, False),
        (False, True, True, True, 0.0, False),
        (None, True, True, False, 0.0, True),
        (None, True, False, True, 0.0, False),
        (True, False, True, True, 0.0, False),
        (True, True, False, False, 0.0, False),
        (True, True, False, True, 0.0, True),
        (True, False, False, True, 0.0, False),
    ],
)
def test_blocks_are_for_training_and_features_in_bf16_without_amx_or_for_few_queries(
    monkeypatch: pytest.MonkeyPatch,
    lacks: bool | None,
    bf16: bool,
    train: bool,
    rounds: bool,
    dropout: float,
    used: bool,
) -> None:
    calls = []
    """Few queries with AMX are the case of None."""
    monkeypatch.setattr(attention, "lacks_matrix_units", lambda: bool(lacks))
    monkeypatch.setattr(attention, "FEW_SEEN", 9 if lacks is None else 8)
    monkeypatch.setattr(
        attention,
        "attend_in_blocks",
        lambda q, k, v, causal, window: calls.append(causal) or torch.zeros_like(q),
    )
    layer = Attention(width=16, heads=2, causal=True, bias=False, dropout=dropout)
    rounding = attention.rounded_scores() if rounds else nullcontext()
    with torch.autocast("cpu", torch.bfloat16, enabled=bf16), torch.set_grad_enabled(train), rounding:
        layer(torch.randn(2, 9, 16, generator=generator(0, "tokens")))
    assert bool(calls) == used


@pytest.mark.parametrize("kept", [0, 2**25])
def test_the_operators_are_described_as_they_are(monkeypatch: pytest.MonkeyPatch, kept: int) -> None:
    monkeypatch.setattr(blockwise_attention, "KEPT_SCORES", kept)
    monkeypatch.setattr(blockwise_attention, "BLOCK_QUERIES", 16)
    q, k, v = (each.flatten(0, 1).detach().requires_grad_() for each in heads(37, 37, torch.float32))
    checks = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_static")
    torch.library.opcheck(blockwise_attention._attend, (q, k, v, True, 20), test_utils=checks)


def built(*, bias: bool, activation: str = "quick_gelu") -> TwoLayerMLP:
    torch.manual_seed(0)
    return TwoLayerMLPSpec(activation=activation, bias=bias).build(32)


@pytest.mark.parametrize("bias", [False, True])
def test_silu_gives_the_same_outputs_and_gradients(bias: bool) -> None:
    mlp = built(bias=bias).double()
    tokens = (3 * torch.randn(2, 50, 32, dtype=torch.float64)).requires_grad_()
    x = tokens @ mlp.up.weight.T + (mlp.up.bias if bias else 0)
    by_hand = x / (1 + torch.exp(-1.702 * x)) @ mlp.down.weight.T + (mlp.down.bias if bias else 0)
    fast, clear = mlp.forward_by_silu(tokens), mlp(tokens)
    for outputs in (fast, clear):
        torch.testing.assert_close(outputs, by_hand, rtol=1e-12, atol=1e-12)
    weights, inputs = torch.randn(by_hand.shape, dtype=torch.float64), [tokens, *mlp.parameters()]
    gradients, exact = (torch.autograd.grad(each, inputs, weights) for each in (fast, by_hand))
    torch.testing.assert_close(gradients, exact, rtol=1e-12, atol=1e-11)


@pytest.mark.parametrize(
    ("bf16", "activation", "used"),
    [(True, "quick_gelu", True), (False, "quick_gelu", False), (True, "gelu", False)],
)
def test_silu_is_for_quick_gelu_in_bf16(
    bf16: bool, activation: str, used: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = list[Tensor]()
    monkeypatch.setattr(TwoLayerMLP, "forward_by_silu", lambda mlp, tokens: calls.append(tokens) or tokens)
    with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
        built(bias=True, activation=activation)(torch.ones(1, 2, 32))
    assert bool(calls) == used


CAUSAL = cases.autoregressive()
TRANSFORMER = next(case for case in CAUSAL if case.model.block.kind == "transformer")


@pytest.mark.parametrize("recipe", CAUSAL, ids=cases.title)
def test_matrices_of_attention_and_mlps_are_rounded_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch, recipe: Recipe
) -> None:
    monkeypatch.setattr(networks, "LARGE_MATRIX", 0)
    network = cases.busy(recipe)
    before = {name: value.clone() for name, value in network.state_dict().items()}
    own, found = dict(network.named_parameters()), dict(with_rounded_matrices(network).named_parameters())
    assert set(own) == set(found)
    for name, parameter in own.items():
        ends = name.rpartition("blocks.")[2].split(".")[1:-1]
        attention = recipe.model.block.kind.endswith("transformer")
        if "blocks." in name and (ends[:1] == ["mlp"] or (attention and ends[:1] == ["attention"])):
            assert torch.equal(found[name], parameter.bfloat16())
        else:
            assert found[name] is parameter
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())


@pytest.mark.parametrize("bias", [False, True])
def test_the_product_is_that_of_rounded_numbers(bias: bool) -> None:
    """By hand, in float64; the sum is rounded once more."""
    layer, rows = nn.Linear(64, 48, bias=bias), torch.randn(2, 5, 64)
    found = RoundedLinear(layer)(rows)
    expected = rows.bfloat16().double() @ layer.weight.bfloat16().double().T
    if bias:
        expected += layer.bias.bfloat16().double()
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double(), expected, rtol=2**-8, atol=1e-5)


class Doubled(nn.Linear):
    """A layer that computes something else than its weight says, as an adapter does."""

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return 2 * super().forward(rows)


def test_layers_that_are_more_than_a_matrix_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(networks, "LARGE_MATRIX", 0)
    network = cases.busy(TRANSFORMER)
    block, width = network.backbone.layers[0], TRANSFORMER.model.width
    block.attention.qkv = Doubled(width, 3 * width)
    nn.utils.parametrizations.weight_norm(block.mlp.up)
    block.mlp.down.register_forward_hook(lambda *given: None)
    found = with_rounded_matrices(network).backbone.layers[0]
    rounded = {name for name, layer in found.named_modules() if isinstance(layer, RoundedLinear)}
    assert rounded == {"attention.out"}
    assert found.attention.qkv.weight is block.attention.qkv.weight
    assert isinstance(found.attention.qkv, Doubled)
