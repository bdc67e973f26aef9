"""Folders of small Vision Transformers with random weights, without the libraries that write them."""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from isopix.codecs.patches import FullPatchSpec
from isopix.data.dataset import DataConfig
from isopix.interop.name_tables import expand_layers, timm_table, to_source, vit_table
from isopix.interop.vit_read import vit_recipe
from isopix.model.blocks.transformer import TransformerSpec
from isopix.model.mlp import LayerNormSpec, TwoLayerMLPSpec
from isopix.model.spec import ModelSpec
from isopix.model.stems.patches import PatchEmbedSpec

WIDTH, DEPTH, CLASSES = 8, 2, 3
BLOCK = TransformerSpec(heads=2, attention_bias=True, norm=LayerNormSpec(), mlp=TwoLayerMLPSpec(expansion=2))
MODEL = ModelSpec(
    codec=FullPatchSpec(patch_size=4), stem=PatchEmbedSpec(), block=BLOCK, depth=DEPTH, width=WIDTH
)
HALVES = [0.5, 0.5, 0.5]
HUGGING_FACE: dict[str, Any] = {
    "model_type": "vit",
    "hidden_size": WIDTH,
    "num_hidden_layers": DEPTH,
    "num_attention_heads": 2,
    "intermediate_size": 2 * WIDTH,
    "hidden_act": "gelu",
    "layer_norm_eps": 1e-12,
    "image_size": 8,
    "patch_size": 4,
    "id2label": {"1": "b", "0": "a", "2": "c"},
}
PROCESSOR = {"size": {"height": 8, "width": 8}, "image_mean": HALVES, "image_std": HALVES, "resample": 2}
CROPS = {"interpolation": "bicubic", "crop_pct": 0.9, "mean": HALVES, "std": HALVES}
TIMM: dict[str, Any] = {
    "architecture": "vit_tiny_patch4_8",
    "model_args": {"num_heads": 2},
    "pretrained_cfg": {"input_size": [3, 8, 8], **CROPS},
}


def tensors(table: Any, head: str) -> dict[str, Tensor]:
    """Random weights by the names of a library."""
    draw = torch.Generator().manual_seed(0)
    own = vit_recipe(MODEL, DataConfig(rows=8, cols=8), ()).outline().tensors()
    shapes = to_source(expand_layers(table, DEPTH), {name: each.to("meta") for name, each in own.items()})
    found = {name: torch.randn(like.shape, generator=draw) for name, like in shapes.items()}
    found[f"{head}.weight"] = torch.randn(CLASSES, WIDTH, generator=draw)
    found[f"{head}.bias"] = torch.randn(CLASSES, generator=draw)
    return found


def huggingface_folder(path: Path, *, config: dict[str, Any] | None = None, **processor: Any) -> Path:
    path.mkdir()
    own = tensors(vit_table(4, qkv_bias=True, head=False), "classifier")
    named = {name if "classifier" in name else f"vit.{name}": each for name, each in own.items()}
    save_file(named, path / "model.safetensors")
    (path / "config.json").write_text(json.dumps(HUGGING_FACE | (config or {})))
    (path / "preprocessor_config.json").write_text(json.dumps(PROCESSOR | processor))
    return path


def timm_folder(path: Path, *, config: dict[str, Any] | None = None, **pretrained: Any) -> Path:
    path.mkdir()
    save_file(tensors(timm_table(4, qkv_bias=True, head=False), "head"), path / "model.safetensors")
    values = TIMM | {"pretrained_cfg": TIMM["pretrained_cfg"] | pretrained} | (config or {})
    (path / "config.json").write_text(json.dumps(values))
    return path


def change(folder: Path, changes: dict[str, Tensor | None]) -> None:
    """Set tensors of a folder, or delete those of None."""
    path = folder / "model.safetensors"
    found = {name: tensor.clone() for name, tensor in load_file(path).items()} | changes
    save_file({name: tensor for name, tensor in found.items() if tensor is not None}, path)
