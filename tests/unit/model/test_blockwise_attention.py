"""Attention in blocks is softmax(q kT / sqrt(e)) v, with its gradients, and is used where it is faster."""

import math
from contextlib import nullcontext

import pytest
import torch
from torch import Tensor

from isopix.core.random import generator
from isopix.model import attention, blockwise_attention
from isopix.model.attention import Attention
from isopix.model.blockwise_attention import attend_in_blocks

SHAPES = {  # queries, keys, causal
    "causal": (37, 37, True),
    "all keys": (37, 37, False),
    "some queries": (5, 37, False),
    "one position": (1, 1, True),
}


def heads(queries: int, keys: int, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor]:
    draw = generator(0, "heads")
    return tuple(
        torch.randn(3, 2, count, 8, dtype=torch.float64, generator=draw).to(dtype).requires_grad_()
        for count in (queries, keys, keys)
    )


def by_hand(q: Tensor, k: Tensor, v: Tensor, *, causal: bool) -> Tensor:
    """In float64, one query after the other."""
    results = []
    for place in range(q.shape[2]):
        seen = slice(0, place + 1) if causal else slice(None)
        scores = torch.einsum("bhe,bhne->bhn", q[:, :, place], k[:, :, seen]) / math.sqrt(q.shape[-1])
        weights = scores.exp() / scores.exp().sum(-1, keepdim=True)
        results.append(torch.einsum("bhn,bhne->bhe", weights, v[:, :, seen]))
    return torch.stack(results, 2)


@pytest.mark.parametrize("kept", [0, 2**25])
@pytest.mark.parametrize("scores", [1, 100, 1000, 2**22])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_values_and_gradients_are_those_by_hand(
    monkeypatch: pytest.MonkeyPatch, shape: tuple[int, int, bool], scores: int, kept: int
) -> None:
    monkeypatch.setattr(blockwise_attention, "KEPT_SCORES", kept)
    monkeypatch.setattr(blockwise_attention, "BLOCK_SCORES", scores)
    monkeypatch.setattr(blockwise_attention, "BLOCK_QUERIES", 16)
    queries, keys, causal = shape
    inputs = heads(queries, keys)
    weight = torch.randn(3, 2, queries, 8, dtype=torch.float64, generator=generator(1, "heads"))
    found, expected = attend_in_blocks(*inputs, causal=causal), by_hand(*inputs, causal=causal)
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
    ("lacks", "bf16", "train", "rounds", "used"),
    [
        (True, True, True, False, True),
        (False, True, True, True, False),
        (True, False, True, True, False),
        (True, True, False, False, False),
        (True, True, False, True, True),
        (True, False, False, True, False),
    ],
)
def test_blocks_are_for_training_and_features_in_bf16_without_amx(
    monkeypatch: pytest.MonkeyPatch, lacks: bool, bf16: bool, train: bool, rounds: bool, used: bool
) -> None:
    calls = []
    monkeypatch.setattr(attention, "lacks_matrix_units", lambda: lacks)
    monkeypatch.setattr(
        attention, "attend_in_blocks", lambda q, k, v, causal: calls.append(causal) or torch.zeros_like(q)
    )
    layer = Attention(width=16, heads=2, causal=True, bias=False)
    rounding = attention.rounded_scores() if rounds else nullcontext()
    with torch.autocast("cpu", torch.bfloat16, enabled=bf16), torch.set_grad_enabled(train), rounding:
        layer(torch.randn(2, 9, 16, generator=generator(0, "tokens")))
    assert bool(calls) == used


def test_dropout_of_weights_is_not_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention, "lacks_matrix_units", lambda: True)
    monkeypatch.setattr(attention, "attend_in_blocks", None)
    layer = Attention(width=16, heads=2, causal=True, bias=False, dropout=0.5)
    with torch.autocast("cpu", torch.bfloat16):
        layer(torch.randn(2, 9, 16, generator=generator(0, "tokens")))


@pytest.mark.parametrize("kept", [0, 2**25])
def test_the_operators_are_described_as_they_are(monkeypatch: pytest.MonkeyPatch, kept: int) -> None:
    monkeypatch.setattr(blockwise_attention, "KEPT_SCORES", kept)
    monkeypatch.setattr(blockwise_attention, "BLOCK_QUERIES", 16)
    q, k, v = (each.flatten(0, 1).detach().requires_grad_() for each in heads(37, 37, torch.float32))
    checks = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_static")
    torch.library.opcheck(blockwise_attention._attend, (q, k, v, True), test_utils=checks)
