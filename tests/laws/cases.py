"""Legal combinations of parts, small enough to try them: all of Image GPT's, and of all parts so many that
every two of different kinds meet.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations, product
from math import isqrt, log
from typing import Any

import torch
from einops import repeat
from torch import Tensor
from torch.distributions import Normal

from isopix.codecs import (
    BytesSpec,
    DownsampledColorSpec,
    FullPatchSpec,
    GrayThumbnailSpec,
    MeanColorSpec,
    PaletteSpec,
)
from isopix.codecs.base import Codec
from isopix.core.random import generator
from isopix.core.types import Codes as Answers
from isopix.core.types import Images, Mask
from isopix.data.dataset import DataConfig
from isopix.model.blocks import AxialSpec, ConvolutionSpec, MixerSpec, TransformerSpec
from isopix.model.heads import LinearHeadSpec, RegressionHeadSpec, UpsamplingHeadSpec
from isopix.model.masking import DropMaskingSpec, MaskTokenMaskingSpec
from isopix.model.network import Network
from isopix.model.norms import LayerNormSpec, RMSNormSpec
from isopix.model.positions import (
    FactorizedPositionEmbeddingSpec,
    LearnedPositionEmbeddingSpec,
    NoPositionEmbeddingSpec,
)
from isopix.model.spec import ModelSpec
from isopix.model.stems import (
    Codes,
    ConvPatchEmbedSpec,
    FourierPixelEmbeddingSpec,
    LinearPixelEmbeddingSpec,
    PatchEmbedSpec,
    ResNetPatchEmbedSpec,
)
from isopix.objectives.autoregressive import Autoregressive
from isopix.objectives.base import TrainingBatch
from isopix.objectives.masked import Masked
from isopix.objectives.masks import BernoulliMask, BlockMask, PerChannelMask
from isopix.recipes.recipe import Recipe
from isopix.train.config import TrainConfig

DATA = [DataConfig(rows=6, cols=6), DataConfig(rows=4, cols=7)]
PALETTES = [PaletteSpec(num_colors=2), PaletteSpec(num_colors=32)]
WIDE = TransformerSpec(heads=1, norm=LayerNormSpec(), activation="gelu", bias=True, expansion=2)
TRANSFORMERS = [TransformerSpec(heads=2), WIDE]
OBJECTIVES = [Autoregressive(), Masked(), Masked(mask=BernoulliMask(ratio=0.5))]
CHOICES: dict[str, list[Any]] = {
    "objective": [
        Autoregressive(),
        Masked(mask=PerChannelMask(ratio=0.3)),
        Masked(mask=BernoulliMask(ratio=0.3)),
    ],
    "block": [ConvolutionSpec(), MixerSpec(), MixerSpec(units=9, expansion=2, norm=RMSNormSpec()), WIDE],
    "stem": [Codes(), FourierPixelEmbeddingSpec(frequencies=4), LinearPixelEmbeddingSpec()],
    "codec": [BytesSpec(), PaletteSpec(num_colors=32)],
    "positions": [NoPositionEmbeddingSpec(), LearnedPositionEmbeddingSpec()],
    "data": DATA,
    "init": ["keras", "openai"],
}
HALF = BernoulliMask(ratio=0.5)
PATCHES: dict[str, list[Any]] = {
    "objective": [
        Masked(mask=HALF, corruption=MaskTokenMaskingSpec(), swapped=0.2, kept=0.2),
        Masked(mask=BlockMask(ratio=0.5), corruption=DropMaskingSpec(), smoothing=0.01),
        Masked(mask=HALF, corruption=DropMaskingSpec(norm_positions=False), static=True),
        Masked(mask=HALF, corruption=MaskTokenMaskingSpec(), causal=True),
    ],
    "block": [WIDE, AxialSpec(heads=2), ConvolutionSpec()],
    "stem": [
        PatchEmbedSpec(),
        ConvPatchEmbedSpec(channels=4),
        ResNetPatchEmbedSpec(stages=(1, 1), channels=4),
        Codes(),
    ],
    "codec": [
        MeanColorSpec(patch_size=8),
        DownsampledColorSpec(patch_size=8),
        GrayThumbnailSpec(patch_size=8),
        FullPatchSpec(patch_size=8),
    ],
    "head": [LinearHeadSpec(), UpsamplingHeadSpec(channels=8), RegressionHeadSpec()],
    "positions": [FactorizedPositionEmbeddingSpec(), LearnedPositionEmbeddingSpec()],
    "class_token": [True, False],
    "tie_blocks": [True, False],
    "data": [DataConfig(rows=16, cols=32)],
    "init": ["vit"],
}
PAINTED: dict[str, Any] = {
    "objective": Autoregressive(),
    "block": WIDE,
    "stem": PatchEmbedSpec(),
    "codec": MeanColorSpec(patch_size=2),
    "data": DataConfig(rows=8, cols=8),
    "tie_blocks": True,
}


def image_gpt() -> Iterator[dict[str, Any]]:
    """Each combination of its parts."""
    for data, codec, block, objective in product(DATA, PALETTES, TRANSFORMERS, OBJECTIVES):
        yield {"data": data, "codec": codec, "block": block, "objective": objective}


def covering(choices: dict[str, list[Any]]) -> Iterator[dict[str, Any]]:
    """Combinations in which each two choices of different kinds meet, if they may: each time that with most
    new pairs.
    """
    legal = [
        parts for each in product(*choices.values()) if fits(parts := dict(zip(choices, each, strict=True)))
    ]
    meetings = [pairs(parts) for parts in legal]
    missing: set[str] = set().union(*meetings)
    while missing:
        best = max(range(len(legal)), key=lambda number: len(meetings[number] & missing))
        missing -= meetings[best]
        yield legal[best]


def fits(parts: dict[str, Any]) -> bool:
    """Whether these go together, said in other words than the package's; what does not is refused."""
    objective, codec = parts["objective"], parts["codec"]
    drops = isinstance(objective.corruption, DropMaskingSpec)
    grown = parts.get("class_token", False)
    head, smoothed = parts.get("head"), getattr(objective, "smoothing", 0)
    return (
        not (grown and objective.causal)
        and not ((grown or drops) and not isinstance(parts["block"], TransformerSpec))
        and not (objective.causal and isinstance(parts["block"], AxialSpec))
        and not (isinstance(head, UpsamplingHeadSpec) and isinstance(codec, MeanColorSpec | FullPatchSpec))
        and not (isinstance(head, RegressionHeadSpec) and (smoothed or isinstance(codec, COLOURS)))
    )


COLOURS = MeanColorSpec | DownsampledColorSpec  # their codes are names, without an order


def pairs(parts: dict[str, Any]) -> set[str]:
    """Each two choices that meet here."""
    return {f"{one} {other}" for one, other in combinations(parts.items(), 2)}


COMBINATIONS = (*image_gpt(), *covering(CHOICES), *covering(PATCHES), PAINTED)
LAW = Recipe(name="law", model=ModelSpec(depth=2, width=16), train=TrainConfig(precision="fp32"))
CASES = [LAW.updated(**parts) for parts in COMBINATIONS]


def title(recipe: Recipe) -> str:
    """What stands in the name of a test."""
    objective = recipe.objective
    mask = getattr(objective, "mask", None)
    what = f"{mask.kind}{mask.ratio}" if mask else "ar"
    block = f"{recipe.model.block.kind}-{recipe.model.block.norm.kind}"
    names = [recipe.model.codec.kind, recipe.model.stem.kind, recipe.model.positions.kind, block, what]
    if recipe.model.codec.patch_size > 1:
        more = {
            "token": recipe.model.class_token,
            "shared": recipe.model.tie_blocks,
            "causal": objective.causal,
        }
        more["sum"] = not getattr(objective.corruption, "norm_positions", True)
        names += [
            objective.corruption.kind,
            recipe.model.head.kind,
            *(name for name, given in more.items() if given),
        ]
    return (
        f"{recipe.data.rows}x{recipe.data.cols}-{getattr(recipe.model.codec, 'colours', '')}{'-'.join(names)}"
    )


def codec(recipe: Recipe) -> Codec:
    """Well separated colours: corners, edges and middles of a coarse lattice; or what needs no colours."""
    if not isinstance(recipe.model.codec, PaletteSpec):
        return recipe.model.codec.placeholder(recipe.grid)
    count = recipe.model.codec.num_colors
    axis = torch.tensor([0.0, 85.0, 170.0, 255.0])
    lattice = torch.cartesian_prod(axis, axis, axis)
    chosen = torch.randperm(len(lattice), generator=torch.Generator().manual_seed(0))[:count]
    return recipe.model.codec.build(recipe.grid, lattice[chosen])


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


def flipped(images: Images, hidden: Mask) -> Images:
    """The images with every bit of what is hidden turned, and nothing else."""
    cell = isqrt(images[0, 0].numel() // hidden.shape[1])
    channels = hidden.expand(*hidden.shape[:2], 3)
    rows = images.shape[2] // cell
    where = repeat(channels, "b (h w) c -> b c (h p) (w q)", h=rows, p=cell, q=cell)
    return torch.where(where, images ^ 0xFF, images)


def numbers(net: Network, images: Images, hidden: Mask | None = None) -> Tensor:
    """What the head gives: logits, or means."""
    return net.head(net.backbone(images, hidden))


def nats(net: Network, images: Images, hidden: Mask | None, answers: Answers) -> Tensor:
    """-ln p of each code, less what a regression's perfect answer has."""
    given = numbers(net, images, hidden)
    if given.shape != answers.shape:
        return -given.log_softmax(-1).gather(-1, answers[..., None])[..., 0]
    scaled = torch.linspace(-1, 1, net.codec.vocab_size)[answers]
    perfect = Normal(scaled, 1).log_prob(scaled)
    return perfect - Normal(given, 1).log_prob(scaled)


def start(recipe: Recipe, net: Network, problem: TrainingBatch) -> float:
    """The loss before training: ln K, or half the mean square of levels scaled to [-1, 1]."""
    if not isinstance(recipe.model.head, RegressionHeadSpec):
        return log(net.codec.vocab_size)
    squares = torch.linspace(-1, 1, net.codec.vocab_size).square()[problem.answers]
    graded = problem.graded.expand_as(squares)
    means = [own[counted].mean() for own, counted in zip(squares, graded, strict=True)]
    return float(torch.stack(means).mean()) / 2


def autoregressive() -> list[Recipe]:
    return [case for case in CASES if case.objective.can_sample]


def masked() -> list[Recipe]:
    return [case for case in CASES if not case.objective.can_sample]


def attentive() -> list[Recipe]:
    return [case for case in CASES if isinstance(case.model.block, TransformerSpec)]


__all__ = ["CASES", "autoregressive", "busy", "generator", "images", "masked", "network", "replace", "title"]
