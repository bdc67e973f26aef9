"""Small recipes over the registered parts: all combinations of Image GPT's, and of all parts so many that
every two of different nouns meet. Parts that a plugin registers join with their default settings.
"""

from collections.abc import Iterator
from functools import cache
from itertools import product
from math import isqrt
from typing import Any, TypeVar

import torch
from einops import repeat
from torch import Tensor, nn
from torch.distributions import Normal

from isopix.codecs.base import Codec, CodecSpec
from isopix.codecs.palette_spec import PaletteSpec
from isopix.codecs.patches import DownsampledColorSpec, FullPatchSpec, GrayThumbnailSpec, MeanColorSpec
from isopix.core.registry import Part, kinds_of
from isopix.core.types import Codes, Grid, Images, Mask
from isopix.data.dataset import DataConfig
from isopix.model.blocks.axial import AxialSpec
from isopix.model.blocks.mixer import MixerSpec
from isopix.model.blocks.transformer import BlockSpec, TransformerSpec
from isopix.model.decoder import DecoderMaskingSpec, PrefixMaskingSpec
from isopix.model.heads import HeadSpec, NoHeadSpec, UpsamplingHeadSpec
from isopix.model.masking import DropMaskingSpec, MaskTokenMaskingSpec, ZeroMaskingSpec
from isopix.model.mlp import LayerNormSpec, MLPSpec, RMSNormSpec, TwoLayerMLPSpec
from isopix.model.network import Network
from isopix.model.positions import NoPositionEmbeddingSpec, PositionEmbeddingSpec
from isopix.model.spec import ModelSpec
from isopix.model.stems import pixels
from isopix.model.stems.patches import ConvPatchEmbedSpec, PatchEmbedSpec, PatchStemSpec, ResNetPatchEmbedSpec
from isopix.objectives.base import ObjectiveSpec, PretrainModel
from isopix.objectives.masks import BernoulliMask, BlockMask, PerChannelMask
from isopix.objectives.objectives import Autoregressive, Masked, NoObjective
from isopix.objectives.prefix import Prefix
from isopix.recipes.recipe import Recipe
from isopix.train.config import TrainConfig
from tests.laws.covering import covering

P = TypeVar("P", bound=Part)

TINY_MLP = TwoLayerMLPSpec(expansion=2)
SQUARED = TwoLayerMLPSpec(expansion=2, activation="relu_squared", bias=False)
NORMED = TransformerSpec(heads=1, qk_norm_scale=0.12, mlp=SQUARED)
TINY_TRANSFORMER = TransformerSpec(heads=1, attention_bias=True, norm=LayerNormSpec(), mlp=TINY_MLP)
DECODER = DecoderMaskingSpec(decoder_depth=1, decoder_width=8, decoder_heads=2)
THIRD, HALF = BernoulliMask(ratio=0.3), BernoulliMask(ratio=0.5)
# Settings to test a part with, where they are not its defaults.
VARIANTS: dict[type[Part], list[Part]] = {
    PaletteSpec: [PaletteSpec(num_colors=32)],
    DownsampledColorSpec: [DownsampledColorSpec(patch_size=8)],
    GrayThumbnailSpec: [GrayThumbnailSpec(patch_size=8)],
    MeanColorSpec: [MeanColorSpec(patch_size=8)],
    FullPatchSpec: [FullPatchSpec(patch_size=8)],
    pixels.FourierPixelEmbeddingSpec: [pixels.FourierPixelEmbeddingSpec(frequencies=4)],
    ConvPatchEmbedSpec: [ConvPatchEmbedSpec(channels=4)],
    ResNetPatchEmbedSpec: [ResNetPatchEmbedSpec(stages=(1, 1), channels=4)],
    TransformerSpec: [TINY_TRANSFORMER],
    AxialSpec: [AxialSpec(heads=2)],
    MixerSpec: [MixerSpec(), MixerSpec(units=9, mlp=TINY_MLP, norm=RMSNormSpec())],
    Prefix: [Prefix(corruption=PrefixMaskingSpec(head_depth=1, head_width=8))],
    UpsamplingHeadSpec: [UpsamplingHeadSpec(channels=8), UpsamplingHeadSpec(channels=8, norm=False)],
}


def variants(base: type[P], *without: type[Part]) -> list[P]:
    """All registered parts of a noun, in the settings that are tested."""
    classes = [cls for cls in kinds_of(base).values() if not issubclass(cls, without)]
    return [part for cls in classes for part in VARIANTS.get(cls, [cls()])]


def others(base: type[P], *known: type[Part]) -> list[P]:
    """The registered parts of a noun but for these classes."""
    return [cls() for cls in kinds_of(base).values() if cls not in known]


def codecs(*, patches: bool) -> list[CodecSpec]:
    return [codec for codec in variants(CodecSpec) if (codec.patch_size > 1) == patches]


def pixel_choices() -> dict[str, list[Any]]:
    mlps = [TransformerSpec(heads=2, mlp=mlp) for mlp in others(MLPSpec, TwoLayerMLPSpec)]
    return {
        "objective": [
            Autoregressive(),
            Masked(mask=PerChannelMask(ratio=0.3)),
            Masked(mask=THIRD),
            *variants(ObjectiveSpec, Autoregressive, Masked, NoObjective),
        ],
        "block": [*variants(BlockSpec, AxialSpec), NORMED, *mlps],
        "stem": variants(pixels.StemSpec, PatchStemSpec),
        "codec": codecs(patches=False),
        "positions": variants(PositionEmbeddingSpec),
        "embedding_conv": [False, True],
        "attention_rows": [None, 2],
        "data": [DataConfig(rows=6, cols=6), DataConfig(rows=4, cols=7)],
        "init": ["keras", "openai", "zero_residual"],
    }


def patch_choices() -> dict[str, list[Any]]:
    return {
        "objective": [
            Masked(mask=HALF, corruption=MaskTokenMaskingSpec(), random_rate=0.2, keep_rate=0.2),
            Masked(mask=BlockMask(ratio=0.5), corruption=DropMaskingSpec(), label_smoothing=0.01),
            Masked(mask=HALF, corruption=DropMaskingSpec(norm_positions=False), deterministic_mask=True),
            Masked(mask=HALF, corruption=MaskTokenMaskingSpec(), causal=True),
            Masked(mask=HALF, corruption=DECODER),
            *variants(ObjectiveSpec, Autoregressive, Masked, NoObjective),
        ],
        "block": variants(BlockSpec, MixerSpec),
        "stem": variants(pixels.StemSpec, pixels.PixelStemSpec, pixels.ColorEmbeddingSpec),
        "codec": codecs(patches=True),
        "head": variants(HeadSpec, NoHeadSpec),
        "positions": variants(PositionEmbeddingSpec, NoPositionEmbeddingSpec),
        "class_token": [True, False],
        "tie_blocks": [True, False],
        "data": [DataConfig(rows=16, cols=32)],
        "init": ["vit"],
    }


SAMPLED_PATCHES: dict[str, Any] = {
    "objective": Autoregressive(),
    "block": TINY_TRANSFORMER,
    "stem": PatchEmbedSpec(),
    "codec": MeanColorSpec(patch_size=2),
    "data": DataConfig(rows=8, cols=8),
    "tie_blocks": True,
}


def image_gpt() -> Iterator[dict[str, Any]]:
    """Each combination of Image GPT's parts."""
    data = [DataConfig(rows=6, cols=6), DataConfig(rows=4, cols=7)]
    palettes = [PaletteSpec(num_colors=2), PaletteSpec(num_colors=32)]
    for size, palette, objective in product(data, palettes, [Autoregressive(), Masked(), Masked(mask=HALF)]):
        yield {"data": size, "codec": palette, "block": TransformerSpec(heads=2), "objective": objective}


def fits(parts: dict[str, Any]) -> bool:
    """Whether these parts go together, in other words than the package's; all others are refused."""
    objective, block, codec, head = (parts.get(name) for name in ("objective", "block", "codec", "head"))
    prefixed, windows = parts.get("class_token", False), parts.get("attention_rows")
    subsets = prefixed or objective.corruption.drops_tokens
    rotates = "positions" in parts and parts["positions"].rotates
    looking_back = isinstance(objective, Prefix)
    return (
        not (prefixed and objective.causal)
        and (isinstance(codec, PaletteSpec) or not isinstance(parts.get("stem"), pixels.ColorEmbeddingSpec))
        and not (subsets and not block.accepts_subsets)
        and not (looking_back and (prefixed or parts.get("embedding_conv")))
        and not ((looking_back or objective.corruption == DECODER) and not isinstance(block, TransformerSpec))
        and not (windows and not (objective.causal and isinstance(block, TransformerSpec)))
        and not (objective.causal and isinstance(block, AxialSpec))
        and not (
            parts.get("init") == "zero_residual"
            and isinstance(objective.corruption, ZeroMaskingSpec)
            and (rotates or isinstance(parts.get("positions"), NoPositionEmbeddingSpec))
        )
        and not (rotates and (subsets or not isinstance(block, TransformerSpec | AxialSpec)))
        and not (isinstance(head, UpsamplingHeadSpec) and isinstance(codec, MeanColorSpec | FullPatchSpec))
        and not (
            head is not None and not head.categorical and (objective.label_smoothing or unordered(codec))
        )
        and not (
            objective.masks_single_codes and components(parts["stem"], codec) not in (1, num_codes(codec))
        )
    )


def unordered(codec: CodecSpec) -> bool:
    return isinstance(codec, MeanColorSpec | DownsampledColorSpec | PaletteSpec)


@cache
def num_codes(codec: CodecSpec) -> int:
    return codec.placeholder(Grid(1, 1)).num_codes


@cache
def components(stem: pixels.StemSpec, codec: CodecSpec) -> int:
    return stem.num_components(codec.placeholder(Grid(1, 1)))


LAW = Recipe(name="law", model=ModelSpec(depth=2, width=16), train=TrainConfig(precision="fp32"))


def recipes() -> list[Recipe]:
    """All cases, of what is registered now."""
    covered = [*covering(pixel_choices(), fits), *covering(patch_choices(), fits)]
    return [LAW.updated(**parts) for parts in (*image_gpt(), *covered, SAMPLED_PATCHES)]


CASES = recipes()


def title(recipe: Recipe) -> str:
    """What stands in the name of a test."""
    objective, model = recipe.objective, recipe.model
    mask = getattr(objective, "mask", None)
    what = f"{mask.kind}{getattr(mask, 'ratio', '')}" if mask else objective.kind
    more = "conv-" * model.embedding_conv + "rows-" * bool(model.attention_rows)
    block = f"{more}{model.block.kind}-{model.block.norm.kind}"
    names = [model.codec.kind, model.stem.kind, model.positions.kind, block, what]
    if model.codec.patch_size > 1:
        flags = {"token": model.class_token, "tied": model.tie_blocks, "causal": objective.causal}
        flags["sum"] = not getattr(objective.corruption, "norm_positions", True)
        names += [objective.corruption.kind, model.head.kind, *(name for name, set_ in flags.items() if set_)]
    return f"{recipe.data.rows}x{recipe.data.cols}-{getattr(model.codec, 'num_colors', '')}{'-'.join(names)}"


def codec(recipe: Recipe) -> Codec:
    """A codec with well separated colors: corners, edges and middles of a coarse lattice; or one without."""
    if not isinstance(recipe.model.codec, PaletteSpec):
        return recipe.model.codec.placeholder(recipe.grid)
    count = recipe.model.codec.num_colors
    axis = torch.tensor([0.0, 85.0, 170.0, 255.0])
    lattice = torch.cartesian_prod(axis, axis, axis)
    chosen = torch.randperm(len(lattice), generator=torch.Generator().manual_seed(0))[:count]
    return recipe.model.codec.build(recipe.grid, lattice[chosen])


def network(recipe: Recipe) -> Network:
    """The network as built: its head is zero."""
    return recipe.build(codec(recipe))


def busy(recipe: Recipe) -> Network:
    """A network in which everything matters: all parameters but those of norms are drawn large."""
    net = network(recipe)
    draw = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for name, parameter in net.named_parameters():
            if "norm" not in name:
                parameter.copy_(torch.randn(parameter.shape, generator=draw) * 0.4)
    return net


def randomize(module: nn.Module, draw: torch.Generator, deviation: float = 1.0) -> None:
    """Draw every parameter of a module anew."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=draw) * deviation)


def model(recipe: Recipe) -> PretrainModel:
    """The network as built, with its objective."""
    return PretrainModel(network(recipe), recipe.objective)


def busy_model(recipe: Recipe) -> PretrainModel:
    """The network in which everything matters, with its objective."""
    return PretrainModel(busy(recipe), recipe.objective)


def images(recipe: Recipe, count: int = 3) -> Images:
    """Random pixels."""
    shape = (count, 3, recipe.data.rows, recipe.data.cols)
    return torch.randint(0, 256, shape, dtype=torch.uint8, generator=torch.Generator().manual_seed(1))


def flipped(images: Images, mask: Mask) -> Images:
    """The images with every bit of what is masked inverted, and nothing else."""
    size = isqrt(images[0, 0].numel() // mask.shape[1])
    channels = mask.expand(*mask.shape[:2], 3)
    rows = images.shape[2] // size
    where = repeat(channels, "b (h w) c -> b c (h p) (w q)", h=rows, p=size, q=size)
    return torch.where(where, images ^ 0xFF, images)


def head_output(net: Network, images: Images, mask: Mask | None = None) -> Tensor:
    """What the head gives for images: logits, or means."""
    return net.head(net.backbone(net.inputs_of(images), mask))


def losses(net: Network, images: Images, mask: Mask | None, targets: Codes) -> Tensor:
    """-ln p of each target, of a regression less that of a perfect prediction."""
    given = head_output(net, images, mask)
    if given.shape != targets.shape:
        return -given.log_softmax(-1).gather(-1, targets[..., None])[..., 0]
    scaled = torch.linspace(-1, 1, net.codec.vocab_size)[targets]
    perfect = Normal(scaled, 1).log_prob(scaled)
    return perfect - Normal(given, 1).log_prob(scaled)


def autoregressive() -> list[Recipe]:
    return [case for case in CASES if case.objective.can_sample]


def masked() -> list[Recipe]:
    return [case for case in CASES if case.objective.masks_input]


def transformers() -> list[Recipe]:
    return [case for case in CASES if isinstance(case.model.block, TransformerSpec)]
