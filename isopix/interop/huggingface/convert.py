"""Import and export ImageGPT models of Hugging Face `transformers`."""

from pathlib import Path
from typing import Any

from jaxtyping import Float
from torch import Tensor, nn

from isopix.codecs.palette import Palette
from isopix.core.types import Grid
from isopix.interop.huggingface.folder import CONFIG, PROCESSOR, ExportedModel
from isopix.interop.huggingface.imagegpt import (
    EXPANSION,
    FIXED,
    ImageGPTConfig,
    bias_shapes,
    check_tensors,
    infer_grid,
    palette_from_clusters,
    parse_config,
    require_lm_head,
)
from isopix.interop.imported_model import ImportedModel, check_tensor, convert_tensors, igpt_recipe
from isopix.interop.name_tables import ACTIVATION_NAMES, HUGGING_FACE, TensorReport, expand_layers
from isopix.interop.weight_files import WeightFiles, open_weights
from isopix.model.blocks.transformer import TransformerBlock
from isopix.model.mlp import ACTIVATIONS, TwoLayerMLP
from isopix.model.network import Network
from isopix.objectives.objectives import Autoregressive
from isopix.storage import atomic


def read_imagegpt(
    folder: Path, colors: Float[Tensor, "K 3"] | None = None, *, grid: Grid | None = None
) -> ImportedModel:
    """Import an ImageGPT model from a folder that `save_pretrained` wrote.

    `colors`, levels of 0..255, replaces the model's own palette. Without `grid` the image size is that of the
    image processor, or else square. Tensors are read one at a time, after all names and shapes are checked.
    Raises ValueError, in one line that names the setting, tensor or file, for a model that would compute
    something else here, and for damaged or hostile files.
    """
    try:
        return _read(folder, colors, grid)
    except ValueError as error:
        raise ValueError(f"{folder}: {error}") from None


def export_imagegpt(network: Network) -> ExportedModel:
    """Return a network as an ImageGPT model with its image processor.

    Raises ValueError for a network that ImageGPT cannot represent.
    """
    tensors = exported_state_dict(network)
    return ExportedModel(tensors, {CONFIG: exported_config(network), PROCESSOR: processor_config(network)})


def exported_config(network: Network) -> dict[str, Any]:
    """Return the `transformers` config, without dropout. Raises ValueError if not an autoregressive iGPT."""
    tensors, block = exported_state_dict(network), network.backbone.layers[0]
    assert isinstance(block, TransformerBlock), "checked by exported_state_dict"
    assert isinstance(block.mlp, TwoLayerMLP)
    assert isinstance(block.norm1, nn.RMSNorm)
    colors, width = tensors["lm_head.weight"].shape
    inner = tensors["transformer.h.0.mlp.c_fc.weight"].shape[1]
    activations = {ACTIVATIONS[own]: name for name, own in reversed(ACTIVATION_NAMES.items())}
    return {
        "architectures": ["ImageGPTForCausalImageModeling"],
        "model_type": "imagegpt",
        "vocab_size": colors + 1,  # the last is the start token
        "n_positions": network.backbone.grid.positions,
        "n_embd": width,
        "n_layer": network.backbone.depth,
        "n_head": block.attention.heads,
        "n_inner": None if inner == EXPANSION * width else inner,
        "activation_function": activations[block.mlp.activation],
        "layer_norm_epsilon": block.norm1.eps,
        "attn_pdrop": 0.0,
        "embd_pdrop": 0.0,
        "resid_pdrop": 0.0,
        "reorder_and_upcast_attn": False,
        **FIXED,
        "dtype": str(tensors["lm_head.weight"].dtype).removeprefix("torch."),
    }


def processor_config(network: Network) -> dict[str, Any]:
    """Return the config of the image processor: this palette and the network's image size."""
    assert isinstance(network.codec, Palette)
    grid = network.backbone.grid
    return {
        "image_processor_type": "ImageGPTImageProcessor",
        "clusters": (network.codec.colors.double() / 127.5 - 1).tolist(),
        "size": {"height": grid.rows, "width": grid.cols},
        "do_resize": True,
        "resample": 2,  # bilinear, as in the published checkpoints
        "do_normalize": True,
        "do_color_quantize": True,
    }


def exported_state_dict(network: Network) -> dict[str, Tensor]:
    """Return the weights in the names and layouts of `transformers`, mostly as views, with biases of zero.

    Raises ValueError for a network that is not an autoregressive Image GPT.
    """
    _require_imagegpt(network)
    own = {name: tensor.detach() for name, tensor in network.tensors().items()}
    exported: dict[str, Tensor] = {}
    for mapping in expand_layers(HUGGING_FACE, network.backbone.depth):
        converted = mapping.to_source(tuple(own[name] for name in mapping.target))
        exported |= zip(mapping.source, converted, strict=True)
    shapes = {name: tuple(tensor.shape) for name, tensor in exported.items()}
    zero = exported["lm_head.weight"].new_zeros
    return exported | {name: zero(shape) for name, shape in bias_shapes(shapes).items()}


def _read(folder: Path, colors: Float[Tensor, "K 3"] | None, grid: Grid | None) -> ImportedModel:
    if not folder.is_dir():
        raise ValueError("not a folder")
    if not (folder / CONFIG).is_file():
        raise ValueError(f"{CONFIG} is missing; this is not a folder of a Hugging Face model")
    config = parse_config(atomic.read_json(folder / CONFIG))
    images = atomic.read_json(folder / PROCESSOR) if (folder / PROCESSOR).is_file() else {}
    stored = open_weights(folder)
    require_lm_head(stored.shapes)  # first: a model without it cannot be imported at all
    grid = infer_grid(config.positions, images.get("size"), grid)
    colors = palette_from_clusters(images.get("clusters")) if colors is None else colors
    if len(colors) != config.num_colors:
        raise ValueError(
            f"the palette has {len(colors)} colors; vocab_size {config.num_colors + 1} means "
            f"{config.num_colors} colors and a start token"
        )
    tensors, reports = _convert(stored, config)
    return ImportedModel(
        origin=f"Hugging Face {folder.resolve().name}",
        recipe=igpt_recipe(
            config.depth,
            config.width,
            grid=grid,
            block=config.block,
            objective=Autoregressive(),
            num_colors=len(colors),
        ),
        codec=Palette(colors, grid),
        step=0,
        tensors=tensors,
        tensor_reports=tuple(reports),
    )


def _convert(stored: WeightFiles, config: ImageGPTConfig) -> tuple[dict[str, Tensor], list[TensorReport]]:
    """Return the converted tensors and a report of each source tensor."""
    names, shapes, biases, masks = check_tensors(stored.shapes, config)
    for name, shape in biases.items():
        if check_tensor(names[name], stored.read(names[name]), shape).any():
            raise ValueError(f"tensor '{names[name]}' is a bias that is not zero; Image GPT has no biases")
    table = expand_layers(HUGGING_FACE, config.depth)
    tensors, reports = convert_tensors(table, shapes, lambda name: stored.read(names[name]))
    return tensors, [
        *(report._replace(source=names[report.source]) for report in reports),
        *(TensorReport(names[name], skipped="zero bias") for name in biases),
        *(TensorReport(names[name], skipped="causal mask") for name in masks),
    ]


def _require_imagegpt(network: Network) -> None:
    """Raise ValueError for a network that the ImageGPT class of `transformers` cannot represent."""
    if not network.backbone.masking.shifts_right:
        raise ValueError("a masked model cannot be exported to ImageGPT, whose attention is causal")
    if not isinstance(network.codec, Palette):
        raise ValueError("a model without a palette cannot be exported to ImageGPT")
    mappings = expand_layers(HUGGING_FACE, network.backbone.depth)
    needed = {name for mapping in mappings for name in mapping.target}
    own = {name for name in network.tensors() if not name.startswith("codec.")}
    for name in sorted(own ^ needed):
        problem = "does not exist in" if name in own else "is missing, but required by"
        raise ValueError(f"tensor '{name}' {problem} ImageGPT of transformers")
    for block in network.backbone.layers:
        if not (
            isinstance(block, TransformerBlock)
            and isinstance(block.mlp, TwoLayerMLP)
            and isinstance(block.norm1, nn.RMSNorm)
        ):
            raise ValueError(f"block {type(block).__name__} cannot be exported to ImageGPT")
