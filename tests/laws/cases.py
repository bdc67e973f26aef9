"""Legal combinations of parts, small enough to try them: all of Image GPT's, and of all parts so many that
every two of different kinds meet.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations, product
from typing import Any

import torch
from einops import rearrange

from isopix.codecs.base import Codec
from isopix.codecs.pixel import ByteChannels, PaletteColours
from isopix.core.random import generator
from isopix.core.types import Hidden, Images
from isopix.data.images import Data
from isopix.model.blocks import Convolution, Mixer, Transformer
from isopix.model.norms import Layer, RootMeanSquare
from isopix.model.positions import Learned, NoPositions
from isopix.model.stems import Codes, Continuous, Fourier
from isopix.objectives.autoregressive import Autoregressive
from isopix.objectives.masked import Masked
from isopix.objectives.masks import Independent, Subpixel
from isopix.objectives.network import Network
from isopix.recipes.recipe import Recipe

DATA = [Data(rows=6, cols=6), Data(rows=4, cols=7)]
PALETTES = [PaletteColours(colours=2), PaletteColours(colours=32)]
WIDE = Transformer(heads=1, norm=Layer(), activation="gelu", bias=True, expansion=2)
TRANSFORMERS = [Transformer(heads=2), WIDE]
OBJECTIVES = [Autoregressive(), Masked(), Masked(mask=Independent(ratio=0.5))]
CHOICES: dict[str, list[Any]] = {
    "objective": [Autoregressive(), Masked(mask=Subpixel(ratio=0.3)), Masked(mask=Independent(ratio=0.3))],
    "block": [Convolution(), Mixer(), Mixer(units=9, expansion=2, norm=RootMeanSquare()), WIDE],
    "stem": [Codes(), Fourier(frequencies=4), Continuous()],
    "codec": [ByteChannels(), PaletteColours(colours=32)],
    "positions": [NoPositions(), Learned()],
    "data": DATA,
    "initial": ["keras", "openai"],
}


def image_gpt() -> Iterator[dict[str, Any]]:
    """Each combination of its parts."""
    for data, codec, block, objective in product(DATA, PALETTES, TRANSFORMERS, OBJECTIVES):
        yield {"data": data, "codec": codec, "block": block, "objective": objective}


def covering() -> Iterator[dict[str, Any]]:
    """Combinations in which each two choices of different kinds meet: each time that with most new pairs."""
    everything = [dict(zip(CHOICES, each, strict=True)) for each in product(*CHOICES.values())]
    met: set[str] = set()
    while len(met) < len(set().union(*map(pairs, everything))):
        best = max(everything, key=lambda each: len(pairs(each) - met))
        met |= pairs(best)
        yield best


def pairs(parts: dict[str, Any]) -> set[str]:
    """Each two choices that meet here."""
    return {f"{one} {other}" for one, other in combinations(parts.items(), 2)}


COMMON = {"name": "law", "depth": 2, "width": 16, "precision": "fp32"}
CASES = [Recipe(**COMMON, **parts) for parts in (*image_gpt(), *covering())]


def title(recipe: Recipe) -> str:
    """What stands in the name of a test."""
    mask = getattr(recipe.objective, "mask", None)
    what = f"{mask.kind}{mask.ratio}" if mask else "ar"
    block = f"{recipe.block.kind}-{recipe.block.norm.kind}"
    names = [recipe.codec.kind, recipe.stem.kind, recipe.positions.kind, block, what]
    return f"{recipe.data.rows}x{recipe.data.cols}-{getattr(recipe.codec, 'colours', '')}{'-'.join(names)}"


def codec(recipe: Recipe) -> Codec:
    """Bytes, or well separated colours: the corners, edges and middles of a coarse lattice."""
    if isinstance(recipe.codec, ByteChannels):
        return recipe.codec.example(recipe.grid)
    count = recipe.codec.colours
    axis = torch.tensor([0.0, 85.0, 170.0, 255.0])
    lattice = torch.cartesian_prod(axis, axis, axis)
    chosen = torch.randperm(len(lattice), generator=torch.Generator().manual_seed(0))[:count]
    return recipe.codec.build(recipe.grid, lattice[chosen])


def network(recipe: Recipe) -> Network:
    """As built: the head is zero."""
    return recipe.build(codec(recipe))


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


def flipped(images: Images, hidden: Hidden) -> Images:
    """The images with every bit of what is hidden turned, and nothing else."""
    channels = hidden.expand(*hidden.shape[:2], 3)
    where = rearrange(channels, "b (h w) c -> b c h w", h=images.shape[2])
    return torch.where(where, images ^ 0xFF, images)


def autoregressive() -> list[Recipe]:
    return [case for case in CASES if case.objective.causal]


def masked() -> list[Recipe]:
    return [case for case in CASES if not case.objective.causal]


def attentive() -> list[Recipe]:
    return [case for case in CASES if isinstance(case.block, Transformer)]


__all__ = ["CASES", "autoregressive", "busy", "generator", "images", "masked", "network", "replace", "title"]
