"""Export Vision Transformers to Hugging Face `transformers`: ViTModel, or ViTForImageClassification."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from torch import Tensor

from isopix.data.dataset import DataConfig
from isopix.data.preprocess import uncropped_side
from isopix.interop.name_tables import (
    ACTIVATION_NAMES,
    VIT_NAMES,
    expand_layers,
    require_names,
    to_source,
    vit_table,
)
from isopix.interop.weights import CONFIG, PROCESSOR, ExportedModel
from isopix.model.blocks.transformer import TransformerSpec
from isopix.model.mlp import LayerNormSpec, TwoLayerMLPSpec
from isopix.model.network import Network
from isopix.model.spec import ModelSpec
from isopix.model.stems.patches import PatchEmbedSpec
from isopix.recipes.recipe import Recipe

RESAMPLING = {"bilinear": 2, "bicubic": 3, "area": 2}  # Pillow's numbers; torchvision has no box filter
# Tensors that ViTModel has no place for: a pattern, and the reason.
SKIPPED = (
    (r"head\..*", "head of codes"),
    (r"backbone\.masking\..*", "mask token"),
    (r"backbone\.pos_norm\..*", "norm of decoded positions"),
)


class ViTParts(NamedTuple):
    """The parts of a network that ViTModel can represent."""

    stem: PatchEmbedSpec
    block: TransformerSpec
    norm: LayerNormSpec
    mlp: TwoLayerMLPSpec


def export_vit(
    network: Network, recipe: Recipe, head: Mapping[str, Tensor], classes: Sequence[str]
) -> ExportedModel:
    """Return a network as a ViTModel, or with the tensors of a class head as a ViTForImageClassification.

    Raises ValueError for a network that these classes cannot represent.
    """
    parts = _require_vit(recipe.model, recipe.objective.causal)
    own = {name: tensor for name, tensor in network.tensors().items() if not name.startswith("codec.")}
    skipped = {name: reason for name in own for pattern, reason in SKIPPED if re.fullmatch(pattern, name)}
    table = vit_table(recipe.model.codec.patch_size, qkv_bias=parts.block.qkv_bias is not False)
    mappings = tuple(expand_layers(table, recipe.model.depth))
    require_names(own.keys() - skipped.keys(), mappings, "ViTModel")
    tensors = to_source(mappings, own)
    config = _model_config(recipe, parts) | {"architectures": ["ViTModel"]}
    if head:
        tensors = {f"{VIT_NAMES.prefix}{name}": each for name, each in tensors.items()}
        tensors |= _head_tensors(head, recipe)
        config |= {
            "architectures": ["ViTForImageClassification"],
            "id2label": {str(number): name for number, name in enumerate(classes)},
            "label2id": {name: number for number, name in enumerate(classes)},
        }
    files = {CONFIG: config, PROCESSOR: _processor_config(recipe.data, parts.stem)}
    return ExportedModel(tensors, files, skipped)


def _require_vit(model: ModelSpec, causal: bool) -> ViTParts:
    """Return the parts. Raises ValueError that names the first one that ViTModel cannot represent."""
    stem, block = model.stem, model.block
    norm, mlp = block.norm, block.mlp if isinstance(block, TransformerSpec) else None
    needed = {
        "an objective that is not causal": not causal,
        "model.class_token=true": model.class_token,
        "model.tie_blocks=false": not model.tie_blocks,
        "model.stem=patch_embed": isinstance(stem, PatchEmbedSpec),
        "model.positions=learned or sincos": model.positions.kind in ("learned", "sincos"),
        "model.block=transformer": isinstance(block, TransformerSpec),
        "model.block.norm=layer_norm": isinstance(norm, LayerNormSpec),
        "model.block.mlp=mlp": isinstance(mlp, TwoLayerMLPSpec),
    }
    for setting, has in needed.items():
        if not has:
            raise ValueError(f"ViTModel of transformers needs {setting}; this network has another setting")
    assert isinstance(stem, PatchEmbedSpec)
    assert isinstance(block, TransformerSpec)
    assert isinstance(norm, LayerNormSpec)
    assert isinstance(mlp, TwoLayerMLPSpec)
    if not (block.attention_bias and mlp.bias):
        raise ValueError("ViTModel of transformers needs model.block.attention_bias=true and mlp.bias=true")
    return ViTParts(stem, block, norm, mlp)


def _head_tensors(head: Mapping[str, Tensor], recipe: Recipe) -> dict[str, Tensor]:
    """Return the class head as `classifier`. Raises ValueError for one that is more than one matrix of the
    class token's last features.
    """
    settings, depth = recipe.finetune, recipe.model.depth
    assert settings is not None
    if settings.pool != "first" or settings.layer_index(depth) != depth or settings.residual_block:
        raise ValueError(
            "ViTForImageClassification of transformers reads the class token of the last layer; it needs "
            f"finetune.pool=first, layer={depth} and residual_block=false"
        )
    weight = head["weight"].detach()
    bias = head.get("bias", weight.new_zeros(len(weight))).detach()
    return {"classifier.weight": weight, "classifier.bias": bias}


def _model_config(recipe: Recipe, parts: ViTParts) -> dict[str, Any]:
    """Return the config of ViTModel, without dropout."""
    rows, cols, width = recipe.data.rows, recipe.data.cols, recipe.model.width
    activations = {own: name for name, own in reversed(ACTIVATION_NAMES.items())}
    return {
        "model_type": "vit",
        "hidden_size": width,
        "num_hidden_layers": recipe.model.depth,
        "num_attention_heads": parts.block.heads,
        "intermediate_size": parts.mlp.expansion * width,
        "hidden_act": activations[parts.mlp.activation],
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
        "layer_norm_eps": parts.norm.epsilon,
        "image_size": rows if rows == cols else [rows, cols],
        "patch_size": recipe.model.codec.patch_size,
        "num_channels": 3,
        "qkv_bias": parts.block.qkv_bias is not False,
        "dtype": "float32",
    }


def _processor_config(data: DataConfig, stem: PatchEmbedSpec) -> dict[str, Any]:
    """Return the config of the image processor: image size, crop and normalization; random crops become
    center crops, and the filter `area` bilinear.

    Raises ValueError for crops that ViTImageProcessor does not make.
    """
    size = {"height": data.rows, "width": data.cols}
    resize: dict[str, Any] = {"size": size}
    if data.crop != "squash":
        if data.rows != data.cols:
            raise ValueError(
                f"images that are cropped to {data.rows} x {data.cols} pixels cannot be exported to "
                "ViTImageProcessor; only squares, or data.crop=squash"
            )
        shorter = {"shortest_edge": uncropped_side(data.rows, data.crop_fraction)}
        resize = {"size": shorter, "do_center_crop": True, "crop_size": size}
    return {
        "image_processor_type": "ViTImageProcessor",
        "do_resize": True,
        **resize,
        "resample": RESAMPLING[data.resample],
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        "image_mean": list(stem.mean),
        "image_std": list(stem.std),
    }
