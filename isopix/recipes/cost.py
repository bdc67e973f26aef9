"""What a recipe costs, counted on a network that takes no memory."""

import torch

from isopix.analysis.cost import Cost, cost
from isopix.recipes.recipe import Recipe


def of_recipe(recipe: Recipe) -> Cost:
    """Parameters, FLOPs and bytes; no weight is drawn and no image is read."""
    codec = recipe.codec.example(recipe.grid)
    with torch.device("meta"):
        network = recipe.assemble(codec)
    block = recipe.block.flops(recipe.grid, recipe.width, recipe.objective.causal)
    return cost(
        network, block_flops=block, depth=recipe.depth, width=recipe.width, precision=recipe.precision
    )
