"""Cost of a recipe, computed on a network without allocated weights."""

from torch._subclasses import FakeTensorMode

from isopix.analysis.cost import (
    ForwardFlops,
    ModelCost,
    TrainingMemory,
    decoded_positions,
    model_cost,
    training_memory,
)
from isopix.core.types import Grid
from isopix.model.network import Network
from isopix.objectives.base import PretrainModel
from isopix.recipes.recipe import Recipe


def recipe_cost(recipe: Recipe) -> ModelCost:
    """Return the number of parameters and the FLOPs per image."""
    network = recipe.outline()
    return model_cost(network, _forward_flops(recipe, network))


def recipe_memory(recipe: Recipe) -> TrainingMemory:
    """Estimate the memory of training, without allocating it."""
    codec = recipe.model.codec.placeholder(recipe.grid)
    with FakeTensorMode(allow_non_fake_inputs=True):
        network = recipe.assemble(codec)
    outputs = codec.num_codes * (codec.vocab_size if recipe.model.head.categorical else 1)
    return training_memory(
        PretrainModel(network, recipe.objective), recipe.train.precision, outputs_per_position=outputs
    )


def _forward_flops(recipe: Recipe, network: Network) -> ForwardFlops:
    """The head runs at positions in the loss; with token dropping, stem and blocks at the visible ones."""
    codec, width, grid = network.codec, recipe.model.width, recipe.grid
    decoded = decoded_positions(recipe.objective, codec)
    visible = grid.positions - decoded if recipe.objective.corruption.drops_tokens else grid.positions
    tokens = visible + recipe.model.class_token
    return ForwardFlops(
        stem=visible * recipe.model.stem.flops_per_token(codec, width),
        block=recipe.model.block.flops(
            grid if tokens == grid.positions else Grid(1, tokens), width, recipe.objective.causal
        ),
        head=decoded * recipe.model.head.flops_per_token(codec, width),
        depth=recipe.model.depth,
    )
