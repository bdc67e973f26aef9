"""Networks and images of the benchmarks: random, and large enough in every weight that errors show."""

import torch
from torch.nn import functional as F

from isopix.codecs.base import Codec
from isopix.codecs.palette_spec import PaletteSpec
from isopix.core.random import generator
from isopix.core.types import Images
from isopix.model.network import Network
from isopix.recipes import registry
from isopix.recipes.recipe import Recipe

LOGIT_STD = 4.0  # about; with a head of zeros, as before training, all losses would be ln K
BLOBS = 6  # random colors along a side of a synthetic photo
NOISE = 8.0  # levels


def find_recipe(words: str) -> Recipe:
    """Return a recipe with changed settings, "igpt.tiny depth=6"."""
    name, *settings = words.split()
    return registry.resolve(name, settings=settings).recipe


def random_network(recipe: Recipe, device: torch.device, *, seed: int = 0) -> Network:
    """Return the network of a recipe with random weights of the blocks and the head, and a palette of colors
    that are apart.
    """
    network = recipe.updated(seed=seed).build(_codec(recipe))
    with torch.no_grad():
        for name, weight in network.head.named_parameters():
            if name.endswith("weight") and weight.ndim > 1:
                draw = torch.randn(weight.shape, generator=generator(seed, f"bench/{name}"))
                weight.copy_(LOGIT_STD * recipe.model.width**-0.5 * draw)
    network = network.to(device)
    network.codec.build_table()
    return network


def random_images(recipe: Recipe, count: int, device: torch.device) -> Images:
    shape = (count, 3, recipe.data.rows, recipe.data.cols)
    pixels = torch.randint(0, 256, shape, dtype=torch.uint8, generator=generator(0, "bench"))
    return pixels.to(device)


def synthetic_photos(count: int, side: int) -> Images:
    """Return images of smooth color gradients with noise, of which most pixels differ, as in photos."""
    rng = generator(0, "bench/photos")
    colors = 255 * torch.rand(count, 3, BLOBS, BLOBS, generator=rng)
    smooth = F.interpolate(colors, size=(side, side), mode="bilinear", align_corners=False)
    noise = NOISE * torch.randn(smooth.shape, generator=rng)
    return (smooth + noise).round().clamp(0, 255).to(torch.uint8)


def _codec(recipe: Recipe) -> Codec:
    spec = recipe.model.codec
    if not isinstance(spec, PaletteSpec):
        return spec.placeholder(recipe.grid)
    # Spread over the cube of colors: multiples of an odd number modulo 2^24 are all different.
    index = torch.arange(spec.num_colors) * (2**24 // spec.num_colors | 1)
    return spec.build(recipe.grid, torch.stack([index >> 16 & 255, index >> 8 & 255, index & 255], 1).float())
