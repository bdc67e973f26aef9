import pytest

from isopix.core.types import Grid
from isopix.model.blocks import Transformer
from isopix.model.norms import Layer

PAPER = Grid(32, 32)


@pytest.mark.parametrize(("expansion", "parameters"), [(1, 99_584), (4, 198_272)])
@pytest.mark.parametrize("heads", [1, 4])
def test_the_isotropic_studys_parameters(heads: int, expansion: int, parameters: int) -> None:
    block = Transformer(heads=heads, expansion=expansion, norm=Layer(), activation="gelu", bias=True)
    built = block.build(PAPER, 128, causal=False)
    assert sum(parameter.numel() for parameter in built.parameters()) == parameters


@pytest.mark.parametrize(("expansion", "flops"), [(1, 720_896), (4, 917_504)])
def test_the_isotropic_studys_flops(expansion: int, flops: int) -> None:
    assert Transformer(heads=4, expansion=expansion).flops(PAPER, 128, causal=False) == 1024 * flops
