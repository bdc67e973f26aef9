"""Large matrices of attention and MLPs are rounded to bf16 once; everything else is shared."""

import pytest
import torch
from torch import nn

from isopix.model import network as networks
from isopix.model.network import RoundedLinear, with_rounded_matrices
from isopix.recipes.recipe import Recipe
from tests.laws import cases

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
        attention = recipe.model.block.kind == "transformer"
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


def test_tied_blocks_stay_tied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(networks, "LARGE_MATRIX", 0)
    network = cases.busy(TRANSFORMER)
    backbone = network.backbone
    tied = type(network)(network.codec, backbone.with_blocks([backbone.layers[0]] * 3), network.head)
    first, *others = with_rounded_matrices(tied).backbone.layers
    assert all(each is first for each in others)
    assert len(others) == 2


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
