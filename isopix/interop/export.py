"""Export networks to Hugging Face `transformers`: to ViTModel, ViTForImageClassification, or ImageGPT."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from torch import Tensor

from isopix.data.dataset import DataConfig
from isopix.data.preprocess import uncropped_side
from isopix.interop.imagegpt import export_imagegpt
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
from isopix.model.stems.patches import PatchEmbedSpec
from isopix.recipes.recipe import Recipe
from isopix.runs.load import LoadedRun

NO_CLASS_HEAD = "class head, which ImageGPTForCausalImageModeling does not have"
NEEDED = (
    "ViTModel of transformers needs an objective that is not causal, model.stem=patch_embed, "
    "model.positions=learned or sincos, and model.block=transformer with layer_norm, mlp and biases"
)
RESAMPLING = {"bilinear": 2, "bicubic": 3, "area": 2}  # Pillow's numbers; torchvision has no box filter
# Tensors that ViTModel has no place for: a pattern, and the reason.
SKIPPED = (
    (r"head\..*", "head of codes"),
    (r"backbone\.masking\..*", "mask token"),
    (r"backbone\.pos_norm\..*", "norm of decoded positions"),
)


def exported_model(loaded: LoadedRun) -> ExportedModel:
    """Return a ViTModel for patches, a ViTForImageClassification if fine-tuned, else an ImageGPT."""
    recipe, head = loaded.recipe, {} if loaded.class_head is None else loaded.class_head.state_dict()
    if recipe.model.codec.patch_size == 1 or recipe.objective.can_sample:
        loaded.require_decoder("export")
        skipped = {f"classifier.{name}": NO_CLASS_HEAD for name in head}
        return replace(export_imagegpt(loaded.network), skipped=skipped)
    return export_vit(loaded.network, recipe, head, loaded.classes)


def export_vit(
    network: Network, recipe: Recipe, head: Mapping[str, Tensor], classes: Sequence[str]
) -> ExportedModel:
    """Return a network as a ViTModel, or with a class head as a ViTForImageClassification."""
    config, stem = _model_config(recipe)
    own = {name: tensor for name, tensor in network.tensors().items() if not name.startswith("codec.")}
    skipped = {name: reason for name in own for pattern, reason in SKIPPED if re.fullmatch(pattern, name)}
    table = vit_table(recipe.model.codec.patch_size, qkv_bias=config["qkv_bias"], head=False)
    mappings = tuple(expand_layers(table, recipe.model.depth))
    require_names(own.keys() - skipped.keys(), mappings, "ViTModel")
    tensors = to_source(mappings, own)
    if head:
        tensors = {f"{VIT_NAMES.prefix}{name}": each for name, each in tensors.items()}
        tensors |= _head_tensors(head, recipe)
        config |= {
            "architectures": ["ViTForImageClassification"],
            "id2label": {str(number): name for number, name in enumerate(classes)},
            "label2id": {name: number for number, name in enumerate(classes)},
        }
    files = {CONFIG: config, PROCESSOR: _processor_config(recipe.data, stem)}
    return ExportedModel(tensors, files, skipped)


def _head_tensors(head: Mapping[str, Tensor], recipe: Recipe) -> dict[str, Tensor]:
    """Return the class head as `classifier`, which must be one matrix of the class token's last features."""
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


def _model_config(recipe: Recipe) -> tuple[dict[str, Any], PatchEmbedSpec]:
    """Return the config of ViTModel, without dropout, and the stem."""
    model, rows, cols = recipe.model, recipe.data.rows, recipe.data.cols
    match model.stem, model.block:
        case PatchEmbedSpec() as stem, TransformerSpec(
            attention_bias=True,
            qk_norm_scale=None,
            norm=LayerNormSpec() as norm,
            mlp=TwoLayerMLPSpec(bias=True, activation="gelu" | "gelu_tanh" | "quick_gelu") as mlp,
        ) as block if model.positions.kind in ("learned", "sincos") and not recipe.objective.causal:
            pass
        case _:
            raise ValueError(NEEDED)
    activations = {own: name for name, own in reversed(ACTIVATION_NAMES.items())}
    return {
        "architectures": ["ViTModel"],
        "model_type": "vit",
        "hidden_size": model.width,
        "num_hidden_layers": model.depth,
        "num_attention_heads": block.heads,
        "intermediate_size": mlp.expansion * model.width,
        "hidden_act": activations[mlp.activation],
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
        "layer_norm_eps": norm.epsilon,
        "image_size": rows if rows == cols else [rows, cols],
        "patch_size": model.codec.patch_size,
        "num_channels": 3,
        "qkv_bias": block.qkv_bias is not False,
        "dtype": "float32",
    }, stem


def _processor_config(data: DataConfig, stem: PatchEmbedSpec) -> dict[str, Any]:
    """Return the image processor's config; random crops become center crops, the filter `area` bilinear."""
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
