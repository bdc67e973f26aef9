"""Import Vision Transformers of timm: `vit_{tiny,small,base,large,huge}_patch*`."""

import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from isopix.codecs.patches import FullPatchSpec
from isopix.data.dataset import DataConfig
from isopix.interop.imported_model import ImportedModel, expansion_of, shape_of
from isopix.interop.name_tables import TIMM_NAMES, timm_table
from isopix.interop.vit_read import Channels, Fraction, Number, class_names, read_vit, vit_recipe
from isopix.interop.weights import CONFIG, open_weights, read_config
from isopix.model.blocks.transformer import TransformerSpec
from isopix.model.mlp import LayerNormSpec, TwoLayerMLPSpec
from isopix.model.spec import ModelSpec
from isopix.model.stems.patches import PatchEmbedSpec

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
    """Import a VisionTransformer of timm from its folder; `classes` replaces the names of outputs."""
    config, stored = read_config(folder, CONFIG, TimmConfig), open_weights(folder)
    classes = classes or class_names(stored, TIMM_NAMES, "head.weight", config.label_names)
    width, _, patch_size, _ = shape_of(stored.shapes, "patch_embed.proj.weight", 4)
    inner, _ = shape_of(stored.shapes, "blocks.0.mlp.fc1.weight", 2)
    images, qkv_bias = config.pretrained_cfg, "blocks.0.attn.qkv.bias" in stored.shapes
    model = ModelSpec(
        codec=FullPatchSpec(patch_size=patch_size),
        stem=PatchEmbedSpec(mean=images.mean, std=images.std),
        block=TransformerSpec(
            heads=config.model_args.num_heads or HEADS[config.architecture.split("_")[1]],
            attention_bias=True,
            qkv_bias=None if qkv_bias else False,
            norm=LayerNormSpec(epsilon=EPSILON),
            mlp=TwoLayerMLPSpec(expansion=expansion_of(inner, width)),
        ),
        depth=len({match[1] for each in stored.shapes if (match := LAYER.match(each))}),
        width=width,
    )
    squash = images.crop_mode == "squash"
    data = DataConfig(
        rows=images.input_size[1],
        cols=images.input_size[2],
        resample=images.interpolation,
        crop="squash" if squash else "resized_center",
        crop_fraction=1.0 if squash else images.crop_pct,
    )
    table = timm_table(patch_size, qkv_bias=qkv_bias, head=bool(classes))
    origin = f"timm {folder.resolve().name}"
    return read_vit(stored, vit_recipe(model, data, classes), classes, TIMM_NAMES, table, origin)
