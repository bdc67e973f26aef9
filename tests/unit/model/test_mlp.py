"""The fast MLP of a CPU in bf16 equals the clear one."""

import pytest
import torch
from torch import Tensor

from isopix.model.mlp import TwoLayerMLP, TwoLayerMLPSpec


def built(*, bias: bool, activation: str = "quick_gelu") -> TwoLayerMLP:
    torch.manual_seed(0)
    return TwoLayerMLPSpec(activation=activation, bias=bias).build(32)


def gradients(mlp: TwoLayerMLP, tokens: Tensor, outputs: Tensor) -> list[Tensor]:
    """The gradients of a fixed weighting of the outputs."""
    weights = torch.randn(outputs.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    loss = (outputs.double() * weights).sum()
    return [each.double() for each in torch.autograd.grad(loss, [tokens, *mlp.parameters()])]


def relative_errors(found: list[Tensor], exact: list[Tensor]) -> list[float]:
    pairs = zip([each.detach() for each in found], [each.detach() for each in exact], strict=True)
    return [float((one.double() - other).norm() / other.norm()) for one, other in pairs]


@pytest.mark.parametrize("bias", [False, True])
def test_silu_gives_the_same_outputs_and_gradients(bias: bool) -> None:
    mlp = built(bias=bias).double()
    tokens = (3 * torch.randn(2, 50, 32, dtype=torch.float64)).requires_grad_()
    x = tokens @ mlp.up.weight.T + (mlp.up.bias if bias else 0)
    by_hand = x / (1 + torch.exp(-1.702 * x)) @ mlp.down.weight.T + (mlp.down.bias if bias else 0)
    fast, clear = mlp.forward_by_silu(tokens), mlp(tokens)
    for outputs in (fast, clear):
        torch.testing.assert_close(outputs, by_hand, rtol=1e-12, atol=1e-12)
    exact = gradients(mlp, tokens, by_hand)
    assert max(relative_errors(gradients(mlp, tokens, fast), exact)) < 1e-12


@pytest.mark.parametrize("bias", [False, True])
def test_in_bf16_it_is_as_exact_as_the_clear_one(bias: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    mlp = built(bias=bias)
    tokens = (3 * torch.randn(8, 100, 32)).requires_grad_()
    double = built(bias=bias).double()
    exact_tokens = tokens.detach().double().requires_grad_()
    outputs = double(exact_tokens)
    exact = [outputs, *gradients(double, exact_tokens, outputs)]
    errors, calls = list[list[float]](), list[int]()
    fast = TwoLayerMLP.forward_by_silu
    monkeypatch.setattr(TwoLayerMLP, "forward_by_silu", lambda *given: calls.append(1) or fast(*given))
    for is_fast in (True, False):
        if not is_fast:
            monkeypatch.setattr("isopix.model.mlp._rounds_to_bf16_on_cpu", lambda tokens: False)
        with torch.autocast("cpu", torch.bfloat16):
            outputs = mlp(tokens)
        errors.append(relative_errors([outputs, *gradients(mlp, tokens, outputs)], exact))
    assert calls == [1]
    assert all(one < 1.25 * other for one, other in zip(*errors, strict=True)), errors
