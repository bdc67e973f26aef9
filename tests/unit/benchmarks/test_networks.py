"""Networks are a function of the seed, and far from uniform; synthetic photos have many colors."""

import math

import torch

from isopix.benchmarks import networks
from isopix.codecs.quantization_error import count_colors
from isopix.core.random import generator
from isopix.objectives.base import PretrainModel
from tests.unit.benchmarks.tiny import CPU, network


def test_the_seed_decides_all_weights() -> None:
    first, again, other = (network(seed=seed).tensors() for seed in (0, 0, 1))
    assert all(torch.equal(weight, again[name]) for name, weight in first.items())
    random = [name for name, weight in first.items() if name.endswith("weight") and "norm" not in name]
    assert [name for name in random if torch.equal(first[name], other[name])] == []


@torch.no_grad()
def test_the_loss_is_not_that_of_a_uniform_prediction() -> None:
    recipe = networks.find_recipe("igpt.digits", ("depth=1",))
    model = PretrainModel(networks.random_network(recipe, CPU), recipe.objective)
    images = networks.random_images(recipe, 4, CPU)
    assert images.shape == (4, 3, 8, 8)
    loss = float(model.eval_loss(model.make_batch(images, generator(0, "bench"))))
    assert loss > math.log(17) + 0.5


def test_all_colors_of_the_palette_are_their_own_nearest() -> None:
    for count in (17, 512):
        recipe = networks.find_recipe("igpt.digits", (f"num_colors={count}",))
        assert networks.random_network(recipe, CPU).codec.notes() == ()


def test_synthetic_photos_are_smooth_and_have_many_colors() -> None:
    photos = networks.synthetic_photos(4, 32)
    assert photos.shape == (4, 3, 32, 32)
    assert len(count_colors(photos).counts) > 0.9 * 4 * 32 * 32
    steps = photos.float().diff(dim=3).abs().mean()
    assert steps < 0.3 * photos.float().std()
