"""Folders of small Vision Transformers with random weights, without the libraries that write them."""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from isopix.interop.name_tables import expand_layers, timm_table, to_source, vit_table
from isopix.interop.vit import ViTSizes

WIDTH, DEPTH, CLASSES = 8, 2, 3
SIZES = ViTSizes(
    depth=DEPTH,
    width=WIDTH,
    heads=2,
    inner=2 * WIDTH,
    patch_size=4,
    rows=8,
    cols=8,
    epsilon=1e-6,
    activation="gelu",
    qkv_bias=True,
    mean=(0.5,) * 3,
    std=(0.5,) * 3,
    resample="bilinear",
    crop="squash",
)
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
    "id2label": {"0": "a", "1": "b", "2": "c"},
}
PROCESSOR: dict[str, Any] = {
    "size": {"height": 8, "width": 8},
    "image_mean": [0.5, 0.5, 0.5],
    "image_std": [0.5, 0.5, 0.5],
    "resample": 2,
}
TIMM: dict[str, Any] = {
    "architecture": "vit_tiny_patch4_8",
    "model_args": {"num_heads": 2},
    "pretrained_cfg": {
        "input_size": [3, 8, 8],
        "interpolation": "bicubic",
        "crop_pct": 0.9,
        "mean": [0.5, 0.5, 0.5],
        "std": [0.5, 0.5, 0.5],
    },
}


def tensors(table: Any, head: str) -> dict[str, Tensor]:
    """Random weights by the names of a library."""
    draw = torch.Generator().manual_seed(0)
    own = SIZES.recipe(fixed_positions=False).outline().tensors()
    shapes = to_source(expand_layers(table, DEPTH), {name: each.to("meta") for name, each in own.items()})
    found = {name: torch.randn(like.shape, generator=draw) for name, like in shapes.items()}
    found[f"{head}.weight"] = torch.randn(CLASSES, WIDTH, generator=draw)
    found[f"{head}.bias"] = torch.randn(CLASSES, generator=draw)
    return found


def huggingface_folder(path: Path, *, config: dict[str, Any] | None = None, **processor: Any) -> Path:
    path.mkdir()
    own = tensors(vit_table(4, qkv_bias=True), "classifier")
    save_file(
        {name if "classifier" in name else f"vit.{name}": each for name, each in own.items()},
        path / "model.safetensors",
    )
    (path / "config.json").write_text(json.dumps(HUGGING_FACE | (config or {})))
    (path / "preprocessor_config.json").write_text(json.dumps(PROCESSOR | processor))
    return path


def timm_folder(path: Path, *, config: dict[str, Any] | None = None, **pretrained: Any) -> Path:
    path.mkdir()
    save_file(tensors(timm_table(4, qkv_bias=True), "head"), path / "model.safetensors")
    values = TIMM | {"pretrained_cfg": TIMM["pretrained_cfg"] | pretrained} | (config or {})
    (path / "config.json").write_text(json.dumps(values))
    return path


def change(folder: Path, **changes: Tensor | None) -> None:
    """Set tensors of a folder, or delete those of None; `__` stands for a dot."""
    path = folder / "model.safetensors"
    found = {name: tensor.clone() for name, tensor in load_file(path).items()}
    for key, tensor in changes.items():
        name = key.replace("__", ".")
        if tensor is None:
            del found[name]
        else:
            found[name] = tensor
    save_file(found, path)
