"""Import and export ImageGPT models of Hugging Face `transformers`."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
from annotated_types import Ge, Gt, Le, Lt, MinLen
from jaxtyping import Float
from pydantic import BaseModel, PositiveInt
from torch import Tensor, nn

from isopix.codecs.palette import Palette
from isopix.core.types import Grid
from isopix.interop.imported_model import ImportedModel, convert_tensors, expansion_of, igpt_recipe, square_of
from isopix.interop.name_tables import (
    ACTIVATION_NAMES,
    IMAGEGPT,
    IMAGEGPT_NAMES,
    expand_layers,
    require_names,
    to_source,
)
from isopix.interop.weights import CONFIG, PROCESSOR, ExportedModel, open_weights, read_config
from isopix.model.blocks.transformer import TransformerBlock, TransformerSpec
from isopix.model.mlp import ACTIVATIONS, RMSNormSpec, TwoLayerMLP, TwoLayerMLPSpec
from isopix.model.network import Network
from isopix.objectives.objectives import Autoregressive

EXPANSION = 4  # of the MLP where n_inner is null
HEAD = "lm_head.weight"
BIASED = ("c_attn.weight", "c_proj.weight", "c_fc.weight")  # matrices that have a bias in `transformers`

Channel = Annotated[float, Ge(-1), Le(1)]


class ImageGPTConfig(BaseModel):
    """`config.json` of a supported ImageGPT."""

    model_type: Literal["imagegpt"]
    vocab_size: Annotated[int, Ge(3)]
    n_positions: PositiveInt
    n_embd: PositiveInt
    n_layer: PositiveInt
    n_head: PositiveInt
    n_inner: PositiveInt | None = None
    activation_function: Literal[tuple(ACTIVATION_NAMES)]  # type: ignore[valid-type]
    layer_norm_epsilon: Annotated[float, Gt(0), Lt(1)]
    scale_attn_weights: Literal[True] = True
    scale_attn_by_inverse_layer_idx: Literal[False] = False
    add_cross_attention: Literal[False] = False
    tie_word_embeddings: Literal[False] = False


class ImageGPTProcessor(BaseModel):
    """`preprocessor_config.json`: the palette in [-1, 1], and the image size."""

    clusters: Annotated[list[tuple[Channel, Channel, Channel]], MinLen(1)] | None = None
    size: Any = None


def read_imagegpt(
    folder: Path,
    colors: Float[Tensor, "K 3"] | None = None,
    *,
    squash: bool = False,
) -> ImportedModel:
    """Import an ImageGPT model from a folder that `save_pretrained` wrote.

    `colors`, levels of 0..255, replaces the model's own palette; `squash` resizes regardless of aspect.
    The image size is that of the image processor if it fits, or else square.
    """
    config, images = read_config(folder, CONFIG, ImageGPTConfig), ImageGPTProcessor()
    if (folder / PROCESSOR).is_file():
        images = read_config(folder, PROCESSOR, ImageGPTProcessor)
    stored = open_weights(folder)
    if HEAD not in stored.shapes:
        kind = "a classifier" if "score.weight" in stored.shapes else "a base model"
        raise ValueError(f"this is {kind} without {HEAD}; a model that predicts pixels is required")
    if colors is None:
        if images.clusters is None:
            raise ValueError(f"{PROCESSOR} with clusters is missing; give a palette file (--palette)")
        colors = ((torch.tensor(images.clusters, dtype=torch.float64) + 1) * 127.5).float()
    if len(colors) != config.vocab_size - 1:
        raise ValueError(
            f"the palette has {len(colors)} colors; vocab_size {config.vocab_size} means "
            f"{config.vocab_size - 1} colors and a start token"
        )
    match images.size:
        case {"height": int(rows), "width": int(cols)} if rows > 0 and rows * cols == config.n_positions:
            grid = Grid(rows, cols)
        case _:
            grid = square_of(config.n_positions)
    mlp = TwoLayerMLPSpec(
        expansion=expansion_of(config.n_inner or EXPANSION * config.n_embd, config.n_embd),
        activation=ACTIVATION_NAMES[config.activation_function],
        bias=False,
    )
    block = TransformerSpec(heads=config.n_head, norm=RMSNormSpec(epsilon=config.layer_norm_epsilon), mlp=mlp)
    recipe = igpt_recipe(config.n_layer, config.n_embd, grid, block, Autoregressive(), len(colors))
    if squash:
        recipe = recipe.updated(data=replace(recipe.data, crop="squash", resample="bilinear"))
    mappings = tuple(expand_layers(IMAGEGPT, config.n_layer))
    tensors, skipped = convert_tensors(stored, IMAGEGPT_NAMES, mappings, recipe.outline().tensors())
    origin = f"Hugging Face {folder.resolve().name}"
    return ImportedModel(origin, recipe, Palette(colors, grid), tensors, skipped)


def export_imagegpt(network: Network) -> ExportedModel:
    """Return a network as an ImageGPT model with its image processor, mostly as views."""
    if not network.backbone.masking.shifts_right:
        raise ValueError("a masked model cannot be exported to ImageGPT, whose attention is causal")
    if not isinstance(network.codec, Palette):
        raise ValueError("a model without a palette cannot be exported to ImageGPT")
    mappings = tuple(expand_layers(IMAGEGPT, network.backbone.depth))
    own = {name: each.detach() for name, each in network.tensors().items() if not name.startswith("codec.")}
    require_names(own, mappings, "ImageGPT")
    found = to_source(mappings, own)
    biases = {
        f"{name.removesuffix('weight')}bias": each.new_zeros(each.shape[-1:])
        for name, each in found.items()
        if name.endswith(BIASED)
    }
    found |= biases
    tensors = {name if name == HEAD else f"transformer.{name}": each for name, each in found.items()}
    grid = network.backbone.grid
    processor = {
        "image_processor_type": "ImageGPTImageProcessor",
        "clusters": (network.codec.colors.double() / 127.5 - 1).tolist(),
        "size": {"height": grid.rows, "width": grid.cols},
        "do_resize": True,
        "resample": 2,  # bilinear, as in the published checkpoints
        "do_normalize": True,
        "do_color_quantize": True,
    }
    return ExportedModel(tensors, {CONFIG: _model_config(network), PROCESSOR: processor})


def _model_config(network: Network) -> dict[str, Any]:
    match network.backbone.layers[-1]:  # all are of one kind, and of several one, not the last, has no window
        case TransformerBlock(mlp=TwoLayerMLP() as mlp, norm1=nn.RMSNorm(eps=float(epsilon))) as block:
            pass
        case other:
            raise ValueError(f"block {type(other).__name__} cannot be exported to ImageGPT")
    activations = {ACTIVATIONS[own]: name for name, own in reversed(ACTIVATION_NAMES.items())}
    attention = block.attention
    if attention.qk_norm_scale or attention.window or mlp.activation not in activations:
        raise ValueError(
            "ImageGPT has no norm of queries and keys (block.qk_norm_scale), no windows (attention_rows), "
            "and of activations quick_gelu, gelu and gelu_tanh alone"
        )
    inner, width = mlp.up.weight.shape
    config = ImageGPTConfig(
        model_type="imagegpt",
        vocab_size=network.codec.vocab_size + 1,  # the last is the start token
        n_positions=network.backbone.grid.positions,
        n_embd=width,
        n_layer=network.backbone.depth,
        n_head=block.attention.heads,
        n_inner=None if inner == EXPANSION * width else inner,
        activation_function=activations[mlp.activation],
        layer_norm_epsilon=epsilon,
    )
    return {
        "architectures": ["ImageGPTForCausalImageModeling"],
        **config.model_dump(),
        **dict.fromkeys(("attn_pdrop", "embd_pdrop", "resid_pdrop"), 0.0),
        "reorder_and_upcast_attn": False,
        "dtype": str(mlp.up.weight.dtype).removeprefix("torch."),
    }
