"""Import Vision Transformers of timm: `vit_{tiny,small,base,large,huge}_patch*`."""

import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from isopix.interop.imported_model import ImportedModel
from isopix.interop.name_tables import TIMM_NAMES, pairs, timm_table
from isopix.interop.vit import Channels, Fraction, Number, ViTSizes, read_vit
from isopix.interop.weights import CONFIG, WeightFiles, open_weights, read_config

HEADS = {"tiny": 3, "small": 6, "base": 12, "large": 16, "huge": 16}  # of timm's architectures
EPSILON = 1e-6  # of timm's layer norms
CROP_FRACTION = 0.875  # timm's default
LAYER = re.compile(r"blocks\.(\d+)\.")


class Images(BaseModel):
    """`pretrained_cfg`: how images are prepared."""

    input_size: tuple[Literal[3], Number, Number]
    mean: Channels
    std: Channels
    interpolation: Literal["bilinear", "bicubic"]
    crop_mode: Literal["center", "squash"] = "center"
    crop_pct: Fraction = CROP_FRACTION


class Arguments(BaseModel):
    """`model_args`: those that change nothing, or that the weights state too; no others are supported."""

    model_config = ConfigDict(extra="forbid")

    img_size: object = None
    patch_size: object = None
    depth: object = None
    embed_dim: object = None
    num_classes: object = None
    mlp_ratio: object = None
    qkv_bias: object = None
    num_heads: Number | None = None
    in_chans: Literal[3] = 3
    global_pool: Literal["token"] = "token"
    class_token: Literal[True] = True


class TimmConfig(BaseModel):
    """`config.json` of a supported model."""

    architecture: Annotated[str, Field(pattern=r"^vit_(tiny|small|base|large|huge)_patch[0-9]+_[0-9]+$")]
    pretrained_cfg: Images
    model_args: Arguments = Arguments()
    global_pool: Literal["token"] = "token"
    label_names: list[str] | None = None


def read_timm(folder: Path, classes: tuple[str, ...] = ()) -> ImportedModel:
    """Import a VisionTransformer from a folder with timm's `config.json` and its weights, as on the Hub.

    `classes` replaces the names of the class head's outputs. Raises ValueError, in one line that names the
    setting, tensor or file, for a model that would compute something else here.
    """
    try:
        config, stored = read_config(folder, CONFIG, TimmConfig), open_weights(folder)
        sizes = _sizes(config, stored, classes)
        table = timm_table(sizes.patch_size, qkv_bias=sizes.qkv_bias)
        if sizes.classes:
            table = (*table, *pairs("head", "classifier"))
        return read_vit(stored, sizes, TIMM_NAMES, table, f"timm {folder.resolve().name}")
    except ValueError as error:
        raise ValueError(f"{folder}: {error}") from None


def _sizes(config: TimmConfig, stored: WeightFiles, classes: tuple[str, ...]) -> ViTSizes:
    """Return the sizes that the weights have, and the heads and the preprocessing of the config."""
    images = config.pretrained_cfg
    width, _, patch_size, _ = _shape(stored, "patch_embed.proj.weight", 4)
    inner, _ = _shape(stored, "blocks.0.mlp.fc1.weight", 2)
    squash = images.crop_mode == "squash"
    return ViTSizes(
        depth=len({match[1] for each in stored.shapes if (match := LAYER.match(each))}),
        width=width,
        heads=config.model_args.num_heads or HEADS[config.architecture.split("_")[1]],
        inner=inner,
        patch_size=patch_size,
        rows=images.input_size[1],
        cols=images.input_size[2],
        epsilon=EPSILON,
        activation="gelu",
        qkv_bias="blocks.0.attn.qkv.bias" in stored.shapes,
        mean=images.mean,
        std=images.std,
        resample=images.interpolation,
        crop="squash" if squash else "resized_center",
        crop_fraction=1.0 if squash else images.crop_pct,
        classes=classes or _classes(config, stored),
    )


def _shape(stored: WeightFiles, name: str, dimensions: int) -> tuple[int, ...]:
    shape = stored.shapes.get(name, ())
    if len(shape) != dimensions:
        raise ValueError(f"tensor '{name}' is missing, or does not have {dimensions} dimensions")
    return shape


def _classes(config: TimmConfig, stored: WeightFiles) -> tuple[str, ...]:
    """Return the names of the classes in the order of the logits, or their numbers; none without a head."""
    if "head.weight" not in stored.shapes:
        return ()
    count = _shape(stored, "head.weight", 2)[0]
    names = config.label_names or list(map(str, range(count)))
    if len(names) != count:
        raise ValueError(f"label_names has other classes than the {count} outputs of the class head")
    return tuple(names)
