import pytest

from isopix.core.types import Grid
from isopix.model.blocks import TransformerSpec
from isopix.model.mlp import TwoLayerMLPSpec
from isopix.model.norms import LayerNormSpec

PAPER = Grid(32, 32)


@pytest.mark.parametrize(("expansion", "parameters"), [(1, 99_584), (4, 198_272)])
@pytest.mark.parametrize("heads", [1, 4])
def test_the_isotropic_studys_parameters(heads: int, expansion: int, parameters: int) -> None:
    mlp = TwoLayerMLPSpec(expansion=expansion)
    block = TransformerSpec(heads=heads, attention_bias=True, norm=LayerNormSpec(), mlp=mlp)
    built = block.build(PAPER, 128, causal=False)
    assert sum(parameter.numel() for parameter in built.parameters()) == parameters


@pytest.mark.parametrize(("expansion", "flops"), [(1, 720_896), (4, 917_504)])
def test_the_isotropic_studys_flops(expansion: int, flops: int) -> None:
    block = TransformerSpec(heads=4, mlp=TwoLayerMLPSpec(expansion=expansion))
    assert block.flops(PAPER, 128, causal=False) == 1024 * flops


def test_an_mlp_needs_hidden_units() -> None:
    with pytest.raises(ValueError, match="expansion is 0; allowed: 1 or more"):
        TwoLayerMLPSpec(expansion=0)
