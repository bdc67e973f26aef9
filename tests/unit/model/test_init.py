import math

import pytest
import torch

from isopix.objectives.network import Network
from isopix.recipes import catalogue

WIDTH, DEPTH = 128, 3
# The released code: attention's inputs 1/sqrt(D), its output 1/sqrt(D L), the rest as stated.
DEVIATIONS = {
    "backbone.blocks.1.attention.qkv.weight": 1 / math.sqrt(WIDTH),
    "backbone.blocks.1.attention.out.weight": 1 / math.sqrt(WIDTH * DEPTH),
    "backbone.blocks.1.mlp.up.weight": 0.02,
    "backbone.blocks.1.mlp.down.weight": 0.02,
    "backbone.stem.tables.0.weight": 0.02,
    "backbone.positions.table": 0.01,
    "backbone.masking.start": 0.02,
}


@pytest.fixture(scope="module")
def network() -> Network:
    words = [f"width={WIDTH}", f"depth={DEPTH}", "codec.colours=256", "data.rows=16", "data.cols=16"]
    recipe = catalogue.resolve("igpt.digits", assignments=words).recipe
    grey = torch.arange(256).float()[:, None].expand(256, 3)
    return recipe.build(recipe.codec.build(recipe.grid, grey))


@pytest.mark.parametrize("name", DEVIATIONS)
def test_weights_start_as_in_the_released_code(network: Network, name: str) -> None:
    values = network.tensors()[name]
    wide = 5 / math.sqrt(2 * values.numel())  # five deviations of an estimated deviation
    assert float(values.std()) == pytest.approx(DEVIATIONS[name], rel=wide)
    assert abs(float(values.mean())) < 5 * DEVIATIONS[name] / math.sqrt(values.numel())


def test_the_head_starts_at_zero_and_gains_at_one(network: Network) -> None:
    assert not network.head.project.weight.any()
    gains = [value for name, value in network.named_parameters() if "norm" in name]
    assert len(gains) == 2 * DEPTH + 1
    assert all((gain == 1).all() for gain in gains)


def test_there_are_no_biases(network: Network) -> None:
    assert [name for name, _ in network.named_parameters() if "bias" in name] == []
