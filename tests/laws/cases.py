"""Every legal combination of parts that exists, small enough to try them all."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import torch

from isopix.codecs.pixel import Palette, PaletteColours
from isopix.core.random import generator
from isopix.core.types import Images
from isopix.data.images import Data
from isopix.model.blocks import Transformer
from isopix.model.norms import Layer
from isopix.objectives.autoregressive import Autoregressive
from isopix.objectives.masked import Masked
from isopix.objectives.masks import Independent
from isopix.objectives.network import Network
from isopix.recipes.recipe import Recipe

DATA = [Data(rows=6, cols=6), Data(rows=4, cols=7)]
CODECS = [PaletteColours(colours=2), PaletteColours(colours=32)]
BLOCKS = [Transformer(heads=2), Transformer(heads=1, norm=Layer(), activation="gelu", bias=True, expansion=2)]
OBJECTIVES = [Autoregressive(), Masked(), Masked(mask=Independent(ratio=0.5))]


def recipes() -> Iterator[Recipe]:
    """Each combination of the lists above."""
    for data, codec, block, objective in product(DATA, CODECS, BLOCKS, OBJECTIVES):
        yield Recipe(
            name="law",
            data=data,
            codec=codec,
            block=block,
            depth=2,
            width=16,
            objective=objective,
            precision="fp32",
        )


CASES = list(recipes())


def title(recipe: Recipe) -> str:
    """What stands in the name of a test."""
    norm = recipe.block.norm.kind
    ratio = getattr(getattr(recipe.objective, "mask", None), "ratio", "")
    return (
        f"{recipe.data.rows}x{recipe.data.cols}-{recipe.codec.colours}-{norm}-{recipe.objective.kind}{ratio}"
    )


def palette(recipe: Recipe) -> Palette:
    """Well separated colours: the corners, edges and middles of a coarse lattice."""
    count = recipe.codec.colours
    axis = torch.tensor([0.0, 85.0, 170.0, 255.0])
    lattice = torch.cartesian_prod(axis, axis, axis)
    chosen = torch.randperm(len(lattice), generator=torch.Generator().manual_seed(0))[:count]
    return recipe.codec.build(recipe.grid, lattice[chosen])


def network(recipe: Recipe) -> Network:
    """As built: the head is zero."""
    return recipe.build(palette(recipe))


def busy(recipe: Recipe) -> Network:
    """A network in which everything matters: the head and every small weight are drawn large."""
    net = network(recipe)
    draw = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for name, parameter in net.named_parameters():
            if "norm" not in name:
                parameter.copy_(torch.randn(parameter.shape, generator=draw) * 0.4)
    return net


def images(recipe: Recipe, count: int = 3) -> Images:
    """Random pixels."""
    shape = (count, 3, recipe.data.rows, recipe.data.cols)
    return torch.randint(0, 256, shape, dtype=torch.uint8, generator=torch.Generator().manual_seed(1))


def autoregressive() -> list[Recipe]:
    return [case for case in CASES if case.objective.causal]


def masked() -> list[Recipe]:
    return [case for case in CASES if not case.objective.causal]


__all__ = ["CASES", "autoregressive", "busy", "generator", "images", "masked", "network", "replace", "title"]
