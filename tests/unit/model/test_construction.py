"""Parts whose modules hold tensors that no checkpoint has, or values of their own."""

import math
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from isopix import parts
from isopix.core.random import generator
from isopix.core.registry import kinds
from isopix.core.types import Grid
from isopix.model.blocks.transformer import TransformerSpec
from isopix.model.network import parameters_on_meta, unsaved_tensors
from isopix.recipes import registry
from isopix.recipes.recipe import Recipe
from isopix.runs.load import load_run
from tests.trained import CPU, train

WORDS = [
    *("depth=2", "width=16", "heads=2", "steps=3", "batch_size=4", "evaluate_images=4", "num_test_images=4"),
    *("objective=masked", "codec.num_colors=8"),
]


class Table(parts.PositionEmbedding):
    """Adds rows that it holds in a saved buffer, a buffer or an attribute, or computes from a parameter."""

    def __init__(self, values: Tensor, holder: str):
        super().__init__()
        self.gain = nn.Parameter(torch.full((values.shape[1],), 2.0))
        if holder == "from parameter":
            values = values * self.gain.detach() * self.gain.max().item()
        if holder == "attribute":
            self.values = values
        else:
            self.register_buffer("values", values, persistent=holder == "saved buffer")

    def vectors(self) -> Tensor:
        return self.values * self.gain


DRAWS = {
    "fixed": lambda shape: torch.arange(float(math.prod(shape))).view(shape).sin(),
    "random": torch.randn,
    "seeded": lambda shape: torch.randn(shape, generator=generator(3, "seeded")),
}


def make(holder: str, draw: str = "fixed") -> Recipe:
    @parts.register("held")
    class Held(parts.PositionEmbeddingSpec):
        def build(self, grid: Grid, width: int) -> parts.PositionEmbedding:
            return Table(DRAWS[draw]((grid.positions, width)), holder)

    return registry.resolve("igpt.digits", settings=[*WORDS, "positions=held"]).recipe


@pytest.mark.parametrize(
    ("holder", "draw"),
    [("attribute", "fixed"), ("from parameter", "fixed"), ("buffer", "seeded"), ("saved buffer", "random")],
)
def test_a_network_is_loaded_with_the_tensors_that_no_checkpoint_has(
    holder: str, draw: str, tmp_path: Path
) -> None:
    recipe = make(holder, draw)
    train(recipe, tmp_path / "run")
    loaded = load_run(tmp_path / "run", device=CPU)
    images = torch.randint(256, (2, 3, 8, 8), dtype=torch.uint8)
    network = loaded.network
    fresh = recipe.build(network.codec)
    fresh.load({name: tensor.clone() for name, tensor in network.tensors().items()})
    logits = [each(each.inputs_of(images)) for each in (network, fresh)]
    assert logits[0].isfinite().all()
    assert logits[0].any()
    assert torch.equal(*logits)


@pytest.mark.parametrize("holder", ["buffer", "attribute"])
def test_a_random_tensor_that_is_not_saved_is_refused_before_training(holder: str, tmp_path: Path) -> None:
    recipe = make(holder, "random")
    with pytest.raises(ValueError, match=r"tensor 'backbone\.positions\.values' differs each time"):
        train(recipe, tmp_path / "run")
    assert not (tmp_path / "run").exists()


class Scaled(nn.Module):
    """A norm whose gain has an uncommon name and whose mixing matrix is drawn as it is made."""

    def __init__(self, width: int, *, empty: bool):
        super().__init__()
        self.gain = nn.Parameter(torch.full((width,), 1.5))
        self.mix = nn.Parameter(torch.empty(width, width) if empty else torch.randn(width, width))

    def forward(self, tokens: Tensor) -> Tensor:
        return nn.functional.normalize(tokens, dim=-1) * self.gain


def scaled(*, empty: bool) -> Recipe:
    @parts.register("scaled")
    class ScaledSpec(parts.NormSpec):
        def build(self, width: int) -> parts.Norm:
            return Scaled(width, empty=empty)

    recipe = registry.resolve("igpt.digits", settings=WORDS).recipe
    norm = kinds("norm")["scaled"]()
    assert isinstance(norm, parts.NormSpec)
    return recipe.updated(block=TransformerSpec(heads=2, norm=norm))


def test_a_parts_own_values_are_kept_and_those_that_it_draws_depend_on_the_seed_alone() -> None:
    recipe = scaled(empty=False)
    codec = recipe.model.codec.placeholder(recipe.grid)
    state = torch.get_rng_state()
    first = recipe.build(codec)
    assert torch.equal(torch.get_rng_state(), state)
    torch.rand(7)
    second, other = recipe.build(codec), recipe.updated(seed=1).build(codec)
    assert (first.backbone.norm.gain == 1.5).all()
    assert (first.backbone.blocks[1].first_norm.gain == 1.5).all()
    mixes = [each.backbone.norm.mix for each in (first, second, other)]
    assert torch.equal(mixes[0], mixes[1])
    assert not torch.equal(mixes[0], mixes[2])
    assert float(mixes[0].detach().std()) == pytest.approx(1, abs=5 / math.sqrt(2 * 16**2))


def test_a_parameter_that_was_never_given_values_is_refused() -> None:
    recipe = scaled(empty=True)
    with pytest.raises(ValueError, match=r"parameter 'backbone.blocks.0.*mix' has no initial values"):
        recipe.build(recipe.model.codec.placeholder(recipe.grid))


def test_the_packages_own_networks_hold_nothing_that_is_not_saved_and_load_without_memory() -> None:
    recipe = registry.resolve("igpt.digits_bert", settings=WORDS).recipe
    network = recipe.build(recipe.model.codec.placeholder(recipe.grid))
    assert not [name for name in unsaved_tensors(network) if not name.startswith("codec.")]
    with parameters_on_meta():
        empty = recipe.assemble(network.codec)
    assert all(parameter.is_meta for parameter in empty.parameters())
    assert not any(parameter.is_meta for parameter in nn.Linear(2, 2).parameters())
