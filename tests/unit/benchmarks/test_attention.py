"""Attention in blocks next to PyTorch's: both sides give the same, and another attention is noticed."""

import pytest
from torch import Tensor

from isopix.benchmarks import attention
from isopix.benchmarks.numerics import NumericsError
from tests.unit.benchmarks.tiny import measured, set_native

NAME = "attention.causal"


@pytest.mark.parametrize("precision", ["bf16", "fp32"])
@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("causal", [False, True])
def test_both_sides_are_measured_in_the_precision_of_the_device(
    monkeypatch: pytest.MonkeyPatch, precision: str, backward: bool, causal: bool
) -> None:
    set_native(monkeypatch, precision)
    own, peer = measured(NAME, backward=backward, causal=causal).times.values()
    assert list(own) == list(peer) == [precision]


@pytest.mark.parametrize("backward", [False, True])
def test_another_attention_is_an_error(monkeypatch: pytest.MonkeyPatch, backward: bool) -> None:
    def of_all_keys(q: Tensor, k: Tensor, v: Tensor, *, causal: bool) -> Tensor:
        return (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1) @ v

    monkeypatch.setattr(attention, "attend_in_blocks", of_all_keys)
    with pytest.raises(NumericsError, match="output and gradients differ"):
        measured(NAME, backward=backward)
