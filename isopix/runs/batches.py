"""The training batches of a recipe."""

import torch

from isopix.data.batches import Batches
from isopix.data.splits import Split
from isopix.recipes.recipe import Recipe
from isopix.train.parallel import own_images


def training_batches(recipe: Recipe, train: Split, device: torch.device) -> Batches:
    """Return the batches that a recipe trains on, of which this process decodes the images that it uses.

    Close them to end their worker processes.
    """
    return Batches(
        train,
        batch_size=recipe.train.batch_size,
        seed=recipe.train.seed,
        device=device,
        augment=recipe.data.augment,
        workers=recipe.data.workers,
        own=own_images(recipe.train.batch_size),
    )
