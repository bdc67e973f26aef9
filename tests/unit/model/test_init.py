"""Initialization: the distributions of the released codes, and which rule a parameter follows."""

import math
from functools import cache

import pytest
import torch
from torch import Tensor, nn

from isopix.core.random import generator
from isopix.model.init import InitTable, Ones, Zeros, initialize
from isopix.model.network import Network
from isopix.recipes import registry

WIDTH, DEPTH = 128, 3


@cache
def network(*words: str) -> Network:
    sizes = [f"width={WIDTH}", f"depth={DEPTH}", "codec.num_colors=256", "data.rows=16", "data.cols=16"]
    recipe = registry.resolve("igpt.digits", settings=[*sizes, *words]).recipe
    gray = torch.arange(256).float()[:, None].expand(256, 3)
    return recipe.build(recipe.model.codec.build(recipe.grid, gray))


def fans(inputs: int, outputs: int) -> float:
    return math.sqrt(6 / (inputs + outputs))


def assert_uniform(values: Tensor, limit: float) -> None:
    """No value beyond the limit, some near it, and the standard deviation is limit / sqrt(3)."""
    wide = 5 / math.sqrt(2 * values.numel())
    assert float(values.std()) == pytest.approx(limit / math.sqrt(3), rel=wide)
    assert (1 - 5 / values.numel()) * limit < float(values.abs().max()) <= 1.00001 * limit


# By hand: sqrt(6 / (128 (1 + 128))), sqrt(6 / (128 (4 + 32))); sqrt(6 / (128 (1 + heads))). So are the layers
# of Keras 3.0.5, 3.6, 3.10, 3.12, 3.13 and 3.14; since 3.15 all limits are those of [width, width].
@pytest.mark.parametrize(("heads", "inputs", "output"), [(1, 0.019062, 0.153093), (4, 0.036084, 0.096825)])
def test_attention_starts_as_in_the_multi_head_attention_of_keras(
    heads: int, inputs: float, output: float
) -> None:
    tensors = network(f"block.heads={heads}", "init=keras_mha").tensors()
    limits = {"attention.qkv": inputs, "attention.out": output, "mlp.up": fans(WIDTH, 4 * WIDTH)}
    for name, limit in limits.items():
        assert_uniform(tensors[f"backbone.blocks.1.{name}.weight"], limit)
    assert float(tensors["backbone.stem.tables.0.weight"].abs().max()) <= 0.05


class Gated(nn.Module):
    """A module that no table knows."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.gate = nn.Linear(WIDTH, WIDTH)
        self.register_buffer("steps", torch.zeros(3))


def start(tables: dict[str, InitTable]) -> Gated:
    module = Gated()
    initialize(module, tables, width=WIDTH, depth=DEPTH, generator=generator(0, "initialise"))
    return module


def test_the_rule_with_most_components_wins_and_names_buffers_too() -> None:
    rules = {"weight": Zeros(), "gate.weight": Ones(), "g*.bias": Ones(), "steps": Ones()}
    module = start({"": rules})
    assert not module.norm.weight.any()
    assert (module.gate.weight == 1).all()
    assert (module.gate.bias == 1).all()
    assert (module.steps == 1).all()


def test_a_submodule_with_a_table_of_its_own_is_drawn_by_that_alone() -> None:
    module = start({"gate": {"bias": Ones()}, "": {"bias": Zeros(), "gate": Zeros()}})
    assert (module.gate.bias == 1).all()
    assert float(module.gate.weight.detach().std()) == pytest.approx(0.02, rel=5 / math.sqrt(2 * WIDTH**2))
    assert not module.norm.bias.any()
