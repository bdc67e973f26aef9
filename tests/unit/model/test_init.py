import math

import pytest
import torch

from isopix.model.network import Network
from isopix.recipes import registry

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
    words = [f"width={WIDTH}", f"depth={DEPTH}", "codec.num_colors=256", "data.rows=16", "data.cols=16"]
    recipe = registry.resolve("igpt.digits", assignments=words).recipe
    grey = torch.arange(256).float()[:, None].expand(256, 3)
    return recipe.build(recipe.model.codec.build(recipe.grid, grey))


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


def keras(block: str) -> Network:
    words = [f"width={WIDTH}", f"depth={DEPTH}", "codec.num_colors=256", "data.rows=16", "data.cols=16"]
    words += [f"block={block}", "init=keras", "objective=autoregressive"]
    recipe = registry.resolve("igpt.digits", assignments=words).recipe
    return recipe.build(
        recipe.model.codec.build(recipe.grid, torch.arange(256).float()[:, None].expand(256, 3))
    )


def fans(inputs: int, outputs: int) -> float:
    return math.sqrt(6 / (inputs + outputs))


# Keras's own limits: Glorot's of matrices, with a convolution's taps counted on both sides; 0.05 of tables.
LIMITS = {
    ("transformer", "backbone.blocks.1.attention.qkv.weight"): fans(WIDTH, WIDTH),
    ("transformer", "backbone.blocks.1.attention.out.weight"): fans(WIDTH, WIDTH),
    ("transformer", "backbone.blocks.1.mlp.up.weight"): fans(WIDTH, 4 * WIDTH),
    ("mixer", "backbone.blocks.1.position_mlp.up.weight"): fans(256, 256),
    ("mixer", "backbone.blocks.1.mlp.down.weight"): fans(WIDTH, WIDTH),
    ("convolution", "backbone.blocks.1.conv2.weight"): fans(5 * WIDTH, 5 * WIDTH),
    ("convolution", "backbone.stem.tables.0.weight"): 0.05,
    ("convolution", "backbone.positions.table"): 0.05,
    ("convolution", "backbone.masking.start"): 0.05,
}


@pytest.mark.parametrize(("block", "name"), LIMITS)
def test_weights_can_start_as_keras_has_them(block: str, name: str) -> None:
    """Uniform: no value beyond the limit, some near it, and the deviation is limit / sqrt(3)."""
    values, limit = keras(block).tensors()[name], LIMITS[block, name]
    wide = 5 / math.sqrt(2 * values.numel())
    assert float(values.std()) == pytest.approx(limit / math.sqrt(3), rel=wide)
    assert (1 - 5 / values.numel()) * limit < float(values.abs().max()) <= limit


@pytest.mark.parametrize("block", ["transformer", "mixer", "convolution"])
def test_every_start_has_a_head_and_biases_of_zero(block: str) -> None:
    network = keras(block)
    zero = [name for name, value in network.named_parameters() if not value.any()]
    biases = [name for name, _ in network.named_parameters() if name.endswith("bias")]
    assert zero == [*biases, "head.project.weight"]
