"""Check config, palette, tensor names and shapes of an ImageGPT model of `transformers` before use."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from isopix.core.types import Grid
from isopix.interop.huggingface.folder import PROCESSOR
from isopix.interop.imported_model import grid_of
from isopix.interop.name_tables import ACTIVATION_NAMES
from isopix.interop.weight_files import quote
from isopix.model.blocks.transformer import TransformerSpec
from isopix.model.mlp import RMSNormSpec, TwoLayerMLPSpec

Shapes = Mapping[str, tuple[int, ...]]

EXPANSION = 4  # of the MLP where n_inner is null
MINIMUM = {"vocab_size": 3, "n_positions": 1, "n_embd": 1, "n_layer": 1, "n_head": 1}
MAXIMUM = 2**31  # of each of these
# Config values that are supported; the defaults of `transformers`.
FIXED = {
    "scale_attn_weights": True,
    "scale_attn_by_inverse_layer_idx": False,
    "add_cross_attention": False,
    "tie_word_embeddings": False,
}
INSIDE = ("wte.", "wpe.", "h.", "ln_f.")  # parts of the base model, whose prefix some files omit
LAYER = re.compile(r"transformer\.h\.([0-9]{1,9})\.")
MASK = re.compile(r"transformer\.h\.[0-9]{1,9}\.attn\.(bias|masked_bias)")
BIASED = ("c_attn.weight", "c_proj.weight", "c_fc.weight")  # matrices that have a bias in `transformers`


@dataclass(frozen=True)
class ImageGPTConfig:
    """The checked config of a supported ImageGPT model."""

    num_colors: int
    positions: int
    depth: int
    width: int
    expansion: int
    block: TransformerSpec


class CheckedTensors(NamedTuple):
    """The tensors of a file by their full names, all known and of the expected shape."""

    names: dict[str, str]  # name in the file, by full name
    shapes: dict[str, tuple[int, ...]]  # of the weights
    biases: dict[str, tuple[int, ...]]  # of the biases, which must be zero
    masks: tuple[str, ...]


def parse_config(values: Mapping[str, Any]) -> ImageGPTConfig:
    """Return the checked config. Raises ValueError that names the unsupported setting."""
    if values.get("model_type") != "imagegpt":
        raise ValueError(f"model_type is {quote(values.get('model_type'))}; only imagegpt is supported")
    for name, fixed in FIXED.items():
        if values.get(name, fixed) != fixed:
            raise ValueError(f"{name} is {quote(values[name])}; only {fixed} is supported")
    for name, minimum in MINIMUM.items():
        if type(values.get(name)) is not int or not minimum <= values[name] <= MAXIMUM:
            given = quote(values.get(name))
            raise ValueError(f"{name} is {given}; it must be an integer from {minimum} to {MAXIMUM}")
    width = values["n_embd"]
    if width % values["n_head"]:
        raise ValueError(f"n_embd {width} is not a multiple of n_head {values['n_head']}")
    expansion = _expansion(values, width)
    return ImageGPTConfig(
        num_colors=values["vocab_size"] - 1,
        positions=values["n_positions"],
        depth=values["n_layer"],
        width=width,
        expansion=expansion,
        block=_block(values, expansion),
    )


def _expansion(values: Mapping[str, Any], width: int) -> int:
    inner = EXPANSION * width if values.get("n_inner") is None else values["n_inner"]
    if type(inner) is not int or inner < 1 or inner % width:
        raise ValueError(f"n_inner is {quote(inner)}; it must be a multiple of n_embd {width}")
    return inner // width


def _block(values: Mapping[str, Any], expansion: int) -> TransformerSpec:
    activation: Any = values.get("activation_function")
    epsilon: Any = values.get("layer_norm_epsilon")
    if not isinstance(activation, str) or activation not in ACTIVATION_NAMES:
        allowed = ", ".join(ACTIVATION_NAMES)
        raise ValueError(f"activation_function is {quote(activation)}; allowed: {allowed}")
    if type(epsilon) not in (int, float) or not 0 < epsilon < 1:
        raise ValueError(f"layer_norm_epsilon is {quote(epsilon)}; it must be between 0 and 1")
    norm = RMSNormSpec(epsilon=float(epsilon))
    mlp = TwoLayerMLPSpec(expansion=expansion, activation=ACTIVATION_NAMES[activation], bias=False)
    return TransformerSpec(heads=values["n_head"], norm=norm, mlp=mlp)


def infer_grid(positions: int, size: object, grid: Grid | None) -> Grid:
    """Return the given grid, or the image processor's size if it has that many positions, or a square."""
    match size:
        case {"height": int(rows), "width": int(cols)} if rows > 0 and rows * cols == positions:
            return grid_of(positions, grid or Grid(rows, cols))
    return grid_of(positions, grid)


def palette_from_clusters(clusters: object) -> Float[Tensor, "K 3"]:
    """Return the palette, given in [-1, 1], as levels of 0..255."""
    if clusters is None:
        raise ValueError(f"{PROCESSOR} with clusters is missing; give a palette file (--palette)")
    if not isinstance(clusters, list) or not clusters or not all(map(_is_color, clusters)):
        raise ValueError(
            f"the clusters of {PROCESSOR} are not a list of colors, three numbers from -1 to 1 each"
        )
    return ((torch.tensor(clusters, dtype=torch.float64) + 1) * 127.5).float()


def _is_color(values: object) -> bool:
    return (
        isinstance(values, list)
        and len(values) == 3
        and all(type(value) in (int, float) and -1 <= value <= 1 for value in values)
    )


def check_tensors(stored: Shapes, config: ImageGPTConfig) -> CheckedTensors:
    """Return the tensors by kind. Raises ValueError for one that is missing, unknown or of another shape."""
    names = _full_names(stored)
    _check_extent(names, config)
    shapes = expected_shapes(config)
    biases = {name: shape for name, shape in bias_shapes(shapes).items() if name in names}
    masks = tuple(name for name in names if MASK.fullmatch(name))
    _check_names(names, needed=shapes, known=[*shapes, *biases, *masks])
    for name, shape in (shapes | biases).items():
        if stored[names[name]] != shape:
            raise ValueError(
                f"tensor '{names[name]}' has shape {stored[names[name]]}; this model needs {shape}"
            )
    return CheckedTensors(names, shapes, biases, masks)


def _full_names(given: Iterable[str]) -> dict[str, str]:
    """Return the names in the file by full name, with the base model's prefix."""
    names: dict[str, str] = {}
    for name in given:
        full = f"transformer.{name}" if name.startswith(INSIDE) else name
        if full in names:
            raise ValueError(
                f"tensors {quote(names[full])} and {quote(name)} are the same tensor of the model"
            )
        names[full] = name
    return names


def require_lm_head(stored: Shapes) -> None:
    """Raise ValueError for the weights of a model without a language-modeling head."""
    if "lm_head.weight" not in stored:
        kind = "a classifier" if "score.weight" in stored else "a base model"
        raise ValueError(f"this is {kind} without lm_head.weight; a model that predicts pixels is required")


def _check_extent(names: Mapping[str, str], config: ImageGPTConfig) -> None:
    """Raise ValueError unless the file has as many layers as the config states."""
    layers = {match[1] for name in names if (match := LAYER.match(name))}
    if len(layers) != config.depth:
        raise ValueError(f"n_layer is {config.depth}; the weights have {len(layers)} layers")


def _check_names(names: Mapping[str, str], *, needed: Iterable[str], known: Iterable[str]) -> None:
    for name in needed:
        if name not in names:
            raise ValueError(f"tensor '{name}' is missing")
    for name in sorted(names.keys() - set(known)):
        raise ValueError(f"tensor {quote(names[name])} is not part of a supported ImageGPT model")


def expected_shapes(config: ImageGPTConfig) -> dict[str, tuple[int, ...]]:
    """Return the shape of every weight; matrices are [in out]."""
    width, inner = config.width, config.expansion * config.width
    layer = {
        "ln_1.weight": (width,),
        "attn.c_attn.weight": (width, 3 * width),
        "attn.c_proj.weight": (width, width),
        "ln_2.weight": (width,),
        "mlp.c_fc.weight": (width, inner),
        "mlp.c_proj.weight": (inner, width),
    }
    return {
        "transformer.wte.weight": (config.num_colors + 1, width),
        "transformer.wpe.weight": (config.positions, width),
        "transformer.ln_f.weight": (width,),
        "lm_head.weight": (config.num_colors, width),
    } | {
        f"transformer.h.{number}.{name}": shape
        for number in range(config.depth)
        for name, shape in layer.items()
    }


def bias_shapes(shapes: Shapes) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the biases that `transformers` adds to the matrices; Image GPT has none."""
    return {
        f"{name.removesuffix('weight')}bias": shape[-1:]
        for name, shape in shapes.items()
        if name.endswith(BIASED)
    }
