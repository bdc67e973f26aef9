"""The plain networks have the loss of ours, for every block and encoding."""

from itertools import product

import pytest
import torch

from isopix.benchmarks import networks, plain_pytorch
from isopix.core.random import generator
from isopix.objectives.base import PretrainModel
from isopix.recipes.isotropic import BLOCKS, ENCODINGS
from tests.unit.benchmarks.tiny import CPU


@pytest.mark.parametrize(("block", "encoding"), list(product(BLOCKS, ENCODINGS)))
@torch.no_grad()
def test_the_loss_is_ours(block: str, encoding: str) -> None:
    recipe = networks.find_recipe(f"isotropic.tiny-{block}-{encoding}-1")
    network = networks.random_network(recipe, CPU)
    images = networks.random_images(recipe, 2, CPU)
    batch = PretrainModel(network, recipe.objective).make_batch(images, generator(0, "bench"))
    expected = float(recipe.objective.eval_loss(network, batch))
    found = float(plain_pytorch.plain_network(network, recipe)(images, batch.mask))
    assert found == pytest.approx(expected, rel=1e-5)
