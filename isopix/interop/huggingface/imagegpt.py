"""What a Hugging Face ImageGPT consists of: settings, palette, names and shapes, each checked before use."""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, get_args

import torch
from jaxtyping import Float
from torch import Tensor

from isopix.core.types import Grid
from isopix.interop.imported_model import as_many
from isopix.interop.weight_files import quoted
from isopix.model.blocks import TransformerSpec
from isopix.model.mlp import Activation, TwoLayerMLPSpec
from isopix.model.norms import RMSNormSpec

Shapes = Mapping[str, tuple[int, ...]]

CONFIG, PROCESSOR = "config.json", "preprocessor_config.json"
EXPANSION = 4  # theirs where n_inner is null
LEAST = {"vocab_size": 3, "n_positions": 1, "n_embd": 1, "n_layer": 1, "n_head": 1}
MOST = 2**31  # larger than any of these is in a file that somebody could have
# What their class can be told and our network is not; absent, it is as here.
FIXED = {
    "scale_attn_weights": True,
    "scale_attn_by_inverse_layer_idx": False,
    "add_cross_attention": False,
    "tie_word_embeddings": False,
}
INSIDE = ("wte.", "wpe.", "h.", "ln_f.")  # parts of the base model, which some files name without its prefix
LAYER = re.compile(r"transformer\.h\.([0-9]{1,9})\.")
MASK = re.compile(r"transformer\.h\.[0-9]{1,9}\.attn\.(bias|masked_bias)")
BIASED = ("c_attn.weight", "c_proj.weight", "c_fc.weight")  # matrices beside which their class has a bias


@dataclass(frozen=True)
class Described:
    """What a config says of a model, once it is known to be an Image GPT that ours can be."""

    levels: int
    positions: int
    depth: int
    width: int
    block: TransformerSpec


class Parts(NamedTuple):
    """The tensors of a file by their full names, all of them known and of the right shape."""

    names: dict[str, str]  # full name: as the file has it
    shapes: dict[str, tuple[int, ...]]  # of those that are weights
    biases: dict[str, tuple[int, ...]]  # of those that must be zero
    masks: tuple[str, ...]


def described_by(values: Mapping[str, Any]) -> Described:
    """The config, checked. Raises ValueError that names the setting."""
    if values.get("model_type") != "imagegpt":
        raise ValueError(f"model_type is {quoted(values.get('model_type'))}; only imagegpt can be read")
    for name, fixed in FIXED.items():
        if values.get(name, fixed) != fixed:
            raise ValueError(f"{name} is {quoted(values[name])}; our Image GPT has {fixed}")
    for name, least in LEAST.items():
        if type(values.get(name)) is not int or not least <= values[name] <= MOST:
            given = quoted(values.get(name))
            raise ValueError(f"{name} is {given}; it must be a whole number of {least} to {MOST}")
    width = values["n_embd"]
    if width % values["n_head"]:
        raise ValueError(f"n_embd {width} is not a multiple of n_head {values['n_head']}")
    return Described(
        levels=values["vocab_size"] - 1,
        positions=values["n_positions"],
        depth=values["n_layer"],
        width=width,
        block=_block(values, width),
    )


def _block(values: Mapping[str, Any], width: int) -> TransformerSpec:
    inner = EXPANSION * width if values.get("n_inner") is None else values["n_inner"]
    if type(inner) is not int or inner < 1 or inner % width:
        raise ValueError(f"n_inner is {quoted(inner)}; it must be a multiple of n_embd {width}")
    activation: Any = values.get("activation_function")
    epsilon: Any = values.get("layer_norm_epsilon")
    if activation not in get_args(Activation):
        known = ", ".join(get_args(Activation))
        raise ValueError(f"activation_function is {quoted(activation)}; known: {known}")
    if type(epsilon) not in (int, float) or not 0 < epsilon < 1:
        raise ValueError(f"layer_norm_epsilon is {quoted(epsilon)}; it must lie between 0 and 1")
    norm = RMSNormSpec(epsilon=float(epsilon))
    mlp = TwoLayerMLPSpec(expansion=inner // width, activation=activation, bias=False)
    return TransformerSpec(heads=values["n_head"], norm=norm, mlp=mlp)


def grid_of(positions: int, size: object, grid: Grid | None) -> Grid:
    """The grid that is given, or else the processor's size where it is the model's (their default is not), or
    else a square.
    """
    if grid is not None:
        return as_many(positions, grid)
    match size:
        case {"height": int(rows), "width": int(cols)} if rows > 0 and rows * cols == positions:
            return Grid(rows, cols)
    side = math.isqrt(positions)
    if side * side != positions:
        raise ValueError(
            f"n_positions {positions} is no square, and {PROCESSOR} states no size of as many pixels; "
            "give --rows and --cols"
        )
    return Grid(side, side)


def colours_of(clusters: object) -> Float[Tensor, "K 3"]:
    """Their palette, values in [-1, 1], as levels of 0..255."""
    if clusters is None:
        raise ValueError(f"there is no {PROCESSOR} with clusters; give a palette file (--palette)")
    if not isinstance(clusters, list) or not clusters or not all(map(_is_colour, clusters)):
        raise ValueError(f"the clusters of {PROCESSOR} are no list of three numbers of -1 to 1 each")
    return ((torch.tensor(clusters, dtype=torch.float64) + 1) * 127.5).float()


def _is_colour(values: object) -> bool:
    return (
        isinstance(values, list)
        and len(values) == 3
        and all(type(value) in (int, float) and -1 <= value <= 1 for value in values)
    )


def parts_of(stored: Shapes, described: Described) -> Parts:
    """Raises ValueError that names the first tensor that is missing, unknown or of another shape."""
    names = _full_names(stored)
    _check_extent(names, described)
    shapes = shapes_of(described)
    biases = {name: shape for name, shape in biases_of(shapes).items() if name in names}
    masks = tuple(name for name in names if MASK.fullmatch(name))
    _check_names(names, needed=shapes, known=[*shapes, *biases, *masks])
    for name, shape in (shapes | biases).items():
        if stored[names[name]] != shape:
            raise ValueError(
                f"tensor '{names[name]}' has shape {stored[names[name]]}; this model needs {shape}"
            )
    return Parts(names, shapes, biases, masks)


def _full_names(given: Iterable[str]) -> dict[str, str]:
    """Their names with the base model's prefix, and as the file has them."""
    names: dict[str, str] = {}
    for name in given:
        full = f"transformer.{name}" if name.startswith(INSIDE) else name
        if full in names:
            raise ValueError(
                f"tensors {quoted(names[full])} and {quoted(name)} are the same part of the model"
            )
        names[full] = name
    return names


def require_head(stored: Shapes) -> None:
    """Raises ValueError for the weights of a model that cannot name pixels."""
    if "lm_head.weight" not in stored:
        kind = "a classifier" if "score.weight" in stored else "a base model"
        raise ValueError(
            f"this is {kind} without lm_head.weight; only a model that can name pixels can be read"
        )


def _check_extent(names: Mapping[str, str], described: Described) -> None:
    """Raises ValueError if the file is not of a model with as many layers as its config says."""
    layers = {match[1] for name in names if (match := LAYER.match(name))}
    if len(layers) != described.depth:
        raise ValueError(f"n_layer is {described.depth}; the weights have {len(layers)} layers")


def _check_names(names: Mapping[str, str], *, needed: Iterable[str], known: Iterable[str]) -> None:
    for name in needed:
        if name not in names:
            raise ValueError(f"tensor '{name}' is missing")
    for name in sorted(names.keys() - set(known)):
        raise ValueError(f"tensor {quoted(names[name])} is not part of an ImageGPT that can be read")


def shapes_of(described: Described) -> dict[str, tuple[int, ...]]:
    """The shape of each of their weights; a matrix is [in out]."""
    width, mlp = described.width, described.block.mlp
    assert isinstance(mlp, TwoLayerMLPSpec)
    inner = mlp.expansion * width
    layer = {
        "ln_1.weight": (width,),
        "attn.c_attn.weight": (width, 3 * width),
        "attn.c_proj.weight": (width, width),
        "ln_2.weight": (width,),
        "mlp.c_fc.weight": (width, inner),
        "mlp.c_proj.weight": (inner, width),
    }
    return {
        "transformer.wte.weight": (described.levels + 1, width),
        "transformer.wpe.weight": (described.positions, width),
        "transformer.ln_f.weight": (width,),
        "lm_head.weight": (described.levels, width),
    } | {
        f"transformer.h.{number}.{name}": shape
        for number in range(described.depth)
        for name, shape in layer.items()
    }


def biases_of(shapes: Shapes) -> dict[str, tuple[int, ...]]:
    """The biases that their class has beside its matrices, and Image GPT has not."""
    return {
        f"{name.removesuffix('weight')}bias": shape[-1:]
        for name, shape in shapes.items()
        if name.endswith(BIASED)
    }
