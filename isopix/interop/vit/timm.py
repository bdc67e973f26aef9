"""Import Vision Transformers of timm: `vit_{tiny,small,base,large,huge}_patch*`."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from isopix.interop.huggingface.folder import CONFIG
from isopix.interop.imported_model import ImportedModel
from isopix.interop.vit import config as check
from isopix.interop.vit.config import Preprocessing, ViTConfig
from isopix.interop.vit.names import TIMM, timm_table
from isopix.interop.vit.read import read_vit
from isopix.interop.weight_files import WeightFiles, open_weights, quote
from isopix.storage import atomic

ARCHITECTURE = re.compile(r"vit_(tiny|small|base|large|huge)_patch[0-9]+_[0-9]+")
HEADS = {"tiny": 3, "small": 6, "base": 12, "large": 16, "huge": 16}  # of timm's architectures
EPSILON = 1e-6  # of timm's layer norms
CROP_FRACTION = 0.875  # timm's default
LAYER = re.compile(r"blocks\.([0-9]{1,9})\.")
# Arguments of VisionTransformer that the weights state too, or that change nothing.
SIZES = ("img_size", "patch_size", "depth", "embed_dim", "num_heads", "num_classes", "mlp_ratio", "qkv_bias")
FIXED = {"in_chans": 3, "global_pool": "token", "class_token": True}  # the only supported values
CROPS = {"center": "resized_center", "squash": "squash"}
RESAMPLING = {"bilinear": "bilinear", "bicubic": "bicubic"}


def read_timm(folder: Path, classes: tuple[str, ...] = ()) -> ImportedModel:
    """Import a VisionTransformer from a folder with timm's `config.json` and its weights, as on the Hub.

    `classes` replaces the names of the class head's outputs. Raises ValueError, in one line that names the
    setting, tensor or file, for a model that would compute something else here.
    """
    try:
        if not (folder / CONFIG).is_file():
            raise ValueError(f"{CONFIG} is missing; this is not a folder of a timm model")
        values, stored = atomic.read_json(folder / CONFIG), open_weights(folder)
        config = _parse_config(values, stored, classes)
        table = timm_table(config.patch_size, qkv_bias=config.qkv_bias)
        return read_vit(stored, config, TIMM, table, f"timm {folder.resolve().name}")
    except ValueError as error:
        raise ValueError(f"{folder}: {error}") from None


def _parse_config(values: Mapping[str, Any], stored: WeightFiles, classes: tuple[str, ...]) -> ViTConfig:
    """Return the checked config: sizes from the weights, heads and preprocessing from `config.json`.

    Raises ValueError that names what is not supported.
    """
    name, images = values.get("architecture"), values.get("pretrained_cfg")
    found = ARCHITECTURE.fullmatch(name) if isinstance(name, str) else None
    if found is None or not isinstance(images, dict):
        raise ValueError(
            f"architecture is {quote(name)}; allowed: vit_tiny, vit_small, vit_base, vit_large and vit_huge "
            "with a patch size and an image size, as vit_base_patch16_224"
        )
    arguments = _arguments(values)
    width, _, patch_size, _ = _shape(stored, "patch_embed.proj.weight", 4)
    inner, _ = _shape(stored, "blocks.0.mlp.fc1.weight", 2)
    rows, cols = _image_size(images)
    return ViTConfig(
        depth=len({match[1] for each in stored.shapes if (match := LAYER.match(each))}),
        width=width,
        heads=check.integer({"num_heads": HEADS[found[1]], **arguments}, "num_heads"),
        expansion=check.expansion(width, inner, "the width of the MLP"),
        patch_size=patch_size,
        rows=rows,
        cols=cols,
        epsilon=EPSILON,
        activation="gelu",
        qkv_bias="blocks.0.attn.qkv.bias" in stored.shapes,
        preprocessing=Preprocessing(
            mean=check.channels(images, "mean"),
            std=check.channels(images, "std"),
            resample=check.choice(images, "interpolation", RESAMPLING),
            crop=check.choice({"crop_mode": "center", **images}, "crop_mode", CROPS),
            crop_fraction=_crop_fraction(images),
        ),
        classes=classes or _classes(values, stored),
    )


def _arguments(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return `model_args`. Raises ValueError for one that changes what the network computes."""
    given = values.get("model_args", {})
    if not isinstance(given, dict):
        raise ValueError(f"model_args is {quote(given)}; it must be an object")
    given = {"global_pool": values.get("global_pool", "token"), **given}
    for name, value in given.items():
        if name not in (*SIZES, *FIXED):
            raise ValueError(f"{quote(name)} of model_args is not supported")
        if name in FIXED and value != FIXED[name]:
            raise ValueError(f"{name} is {quote(value)}; only {FIXED[name]} is supported")
    return given


def _shape(stored: WeightFiles, name: str, dimensions: int) -> tuple[int, ...]:
    shape = stored.shapes.get(name)
    if shape is None:
        raise ValueError(f"tensor '{name}' is missing")
    if len(shape) != dimensions or min(shape) < 1:
        raise ValueError(f"tensor '{name}' has shape {shape}; it must have {dimensions} dimensions")
    return shape


def _image_size(images: Mapping[str, Any]) -> tuple[int, int]:
    size = images.get("input_size")
    if not isinstance(size, list) or len(size) != 3 or size[0] != 3:
        raise ValueError(f"input_size is {quote(size)}; it must be 3 channels, rows and columns")
    return check.side({"input_size": size[1:]}, "input_size")


def _crop_fraction(images: Mapping[str, Any]) -> float:
    """Return `crop_pct` of a center crop; squashed images are not cropped."""
    return (
        1.0
        if images.get("crop_mode") == "squash"
        else check.number({"crop_pct": CROP_FRACTION, **images}, "crop_pct")
    )


def _classes(values: Mapping[str, Any], stored: WeightFiles) -> tuple[str, ...]:
    """Return the names of the classes in the order of the logits, or their numbers; none without a head."""
    if "head.weight" not in stored.shapes:
        return ()
    count = _shape(stored, "head.weight", 2)[0]
    names = values.get("label_names")
    if names is None:
        return tuple(map(str, range(count)))
    if not isinstance(names, list) or len(names) != count:
        raise ValueError(f"label_names has other classes than the {count} outputs of the class head")
    return tuple(map(str, names))
