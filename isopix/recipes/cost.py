"""What a recipe costs, counted on a network that takes no memory."""

import torch
from torch._subclasses import FakeTensorMode

from isopix.analysis.cost import Cost, Memory, Work, cost, decoded, memory
from isopix.core.types import Grid
from isopix.model.network import Network
from isopix.objectives.base import PretrainModel
from isopix.recipes.recipe import Recipe


def of_recipe(recipe: Recipe) -> Cost:
    """Parameters and FLOPs; no weight is drawn and no image is read."""
    codec = recipe.model.codec.placeholder(recipe.grid)
    with torch.device("meta"):
        network = recipe.assemble(codec)
    return cost(network, _work(recipe, network))


def memory_of(recipe: Recipe) -> Memory:
    """The bytes that training it takes, found without taking them."""
    codec = recipe.model.codec.placeholder(recipe.grid)
    with FakeTensorMode(allow_non_fake_inputs=True):
        network = recipe.assemble(codec)
    numbers = codec.num_codes * (codec.vocab_size if recipe.model.head.categorical else 1)
    return memory(PretrainModel(network, recipe.objective), recipe.train.precision, numbers=numbers)


def _work(recipe: Recipe, network: Network) -> Work:
    """The head's at graded positions alone; the stem's and the blocks' where nothing has been dropped."""
    codec, width, grid = network.codec, recipe.model.width, recipe.grid
    named = decoded(recipe.objective, codec)
    shown = grid.positions - named if recipe.objective.corruption.drops_tokens else grid.positions
    seen = shown + recipe.model.class_token
    over = grid if seen == grid.positions else Grid(1, seen)
    return Work(
        stem=shown * recipe.model.stem.flops_per_token(codec, width),
        block=recipe.model.block.flops(over, width, recipe.objective.causal),
        head=named * recipe.model.head.flops_per_token(codec, width),
        depth=recipe.model.depth,
    )
