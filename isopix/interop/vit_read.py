"""Import Vision Transformers: ViT and ViTMAE of Hugging Face `transformers`, and `vit_*_patch*` of timm."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel, ConfigDict, Field

from isopix.codecs.patches import FullPatchSpec
from isopix.data.dataset import DataConfig, Resample
from isopix.finetuning.classifier import FineTuneConfig
from isopix.interop.imported_model import ImportedModel, convert_tensors, expansion_of, shape_of
from isopix.interop.name_tables import (
    ACTIVATION_NAMES,
    TABLE,
    TIMM_NAMES,
    VIT_NAMES,
    Naming,
    WeightMapping,
    expand_layers,
    timm_table,
    vit_table,
)
from isopix.interop.weights import CONFIG, PROCESSOR, WeightFiles, open_weights, read_config
from isopix.model.blocks.transformer import TransformerSpec
from isopix.model.heads import NoHeadSpec
from isopix.model.masking import DropMaskingSpec
from isopix.model.mlp import LayerNormSpec, TwoLayerMLPSpec
from isopix.model.positions import LearnedPositionEmbeddingSpec, SinCosPositionEmbeddingSpec, sincos_table
from isopix.model.spec import ModelSpec
from isopix.model.stems.patches import PatchEmbedSpec
from isopix.objectives.masks import exact_ratio_mask
from isopix.objectives.objectives import Masked, NoObjective
from isopix.recipes.recipe import Recipe
from isopix.recipes.vit import PAPER_FINETUNE
from isopix.runs.state import CLASSIFIER
from isopix.train.config import TrainConfig

RESCALE_FACTOR = 1 / 255
RESAMPLING: dict[int, Resample] = {2: "bilinear", 3: "bicubic", 4: "area"}  # Pillow's numbers
FIXED_TOLERANCE = 1e-5  # between stored sine and cosine embeddings and computed ones
CLASSES_ALONE = ("generative_weight=0.0", "mask_at_eval=false")  # there is no decoder to train jointly
FINETUNE = FineTuneConfig(
    generative_weight=0.0, pool="first", head_bias=True, mask_at_eval=False, patience=None
)

Number = Annotated[int, Ge(1), Lt(2**16)]
Fraction = Annotated[float, Ge(0), Le(1)]
Channels = tuple[float, float, float]


class ViTConfig(BaseModel):
    """`config.json` of a supported ViT or ViTMAE."""

    model_type: Literal["vit", "vit_mae"]
    hidden_size: Number
    num_hidden_layers: Number
    num_attention_heads: Number
    intermediate_size: Number
    image_size: Number | tuple[Number, Number]
    patch_size: Number
    layer_norm_eps: Annotated[float, Gt(0), Lt(1)]
    hidden_act: Literal[tuple(ACTIVATION_NAMES)]  # type: ignore[valid-type]
    qkv_bias: bool = True
    hidden_dropout_prob: Fraction = 0.0
    attention_probs_dropout_prob: Fraction = 0.0
    num_channels: Literal[3] = 3
    mask_ratio: Fraction = 0.75
    id2label: dict[int, str] = {}


class ViTProcessor(BaseModel):
    """`preprocessor_config.json` of a supported image processor."""

    do_rescale: Literal[True] = True
    rescale_factor: Annotated[float, Ge(0.999999 * RESCALE_FACTOR), Le(1.000001 * RESCALE_FACTOR)] = (
        RESCALE_FACTOR
    )
    do_normalize: bool = True
    image_mean: Channels = (0.0, 0.0, 0.0)
    image_std: Channels = (1.0, 1.0, 1.0)
    resample: Literal[2, 3, 4] = 2
    do_resize: bool = True
    do_center_crop: bool | None = None
    size: Any = None
    crop_size: Any = None


def read_huggingface_vit(folder: Path, classes: tuple[str, ...] = ()) -> ImportedModel:
    """Import a ViTModel, ViTForImageClassification, ViTMAEModel or ViTMAEForPreTraining.

    The pooler, the mask token and the decoder are skipped, and reported.
    """
    config = read_config(folder, CONFIG, ViTConfig)
    images, stored = read_config(folder, PROCESSOR, ViTProcessor), open_weights(folder)
    labels = [label for _, label in sorted(config.id2label.items())]
    classes = classes or class_names(stored, VIT_NAMES, "classifier.weight", labels)
    recipe = vit_recipe(_model(config, images), _data(config, images), classes)
    if config.model_type == "vit_mae":  # its position embeddings are fixed, and masked patches are dropped
        mask = exact_ratio_mask(config.mask_ratio, recipe.grid.positions)
        recipe = recipe.updated(
            objective=Masked(mask=mask, corruption=DropMaskingSpec(norm_positions=False)),
            positions=SinCosPositionEmbeddingSpec(),
            embedding_dropout=0.0,
            finetune_overrides=(*CLASSES_ALONE, "mask_ratio=0.0"),
        )
    table = vit_table(config.patch_size, qkv_bias=config.qkv_bias, head=bool(classes))
    return read_vit(stored, recipe, classes, VIT_NAMES, table, f"Hugging Face {folder.resolve().name}")


def _model(config: ViTConfig, images: ViTProcessor) -> ModelSpec:
    if images.do_normalize and not {"image_mean", "image_std"} <= images.model_fields_set:
        raise ValueError("image_mean and image_std are missing")
    mlp = TwoLayerMLPSpec(
        expansion=expansion_of(config.intermediate_size, config.hidden_size),
        activation=ACTIVATION_NAMES[config.hidden_act],
    )
    return ModelSpec(
        codec=FullPatchSpec(patch_size=config.patch_size),
        stem=PatchEmbedSpec(
            mean=images.image_mean if images.do_normalize else (0.0, 0.0, 0.0),
            std=images.image_std if images.do_normalize else (1.0, 1.0, 1.0),
        ),
        embedding_dropout=config.hidden_dropout_prob,
        block=TransformerSpec(
            heads=config.num_attention_heads,
            attention_bias=True,
            qkv_bias=None if config.qkv_bias else False,
            dropout=config.hidden_dropout_prob,
            attention_dropout=config.attention_probs_dropout_prob,
            norm=LayerNormSpec(epsilon=config.layer_norm_eps),
            mlp=mlp,
        ),
        depth=config.num_hidden_layers,
        width=config.hidden_size,
    )


def _data(config: ViTConfig, images: ViTProcessor) -> DataConfig:
    rows, cols = (config.image_size,) * 2 if isinstance(config.image_size, int) else config.image_size
    data = DataConfig(rows=rows, cols=cols, resample=RESAMPLING[images.resample], crop="squash")
    wanted = ({"height": rows, "width": cols}, *([rows] if rows == cols else []))
    if images.do_center_crop:
        shorter = images.size.get("shortest_edge") if isinstance(images.size, dict) else None
        if not isinstance(shorter, int) or shorter < rows or rows != cols or images.crop_size not in wanted:
            raise ValueError(
                f"size {images.size!r:.100} and crop_size {images.crop_size!r:.100} are not supported; "
                f"shortest_edge must be at least {rows}, and the crop the model's square, {rows} x {cols}"
            )
        return replace(data, crop="resized_center", crop_fraction=rows / shorter)
    if images.do_resize and images.size not in wanted:
        raise ValueError(f"size is {images.size!r:.100}; it must be height {rows} and width {cols}")
    return data


def vit_recipe(model: ModelSpec, data: DataConfig, classes: Sequence[str]) -> Recipe:
    """Return the recipe of a Vision Transformer: fine-tuning is the paper's, pre-training is not known."""
    return Recipe(
        name=f"vit.{model.depth}x{model.width}",
        model=replace(model, class_token=True, head=NoHeadSpec(), init="vit"),
        objective=NoObjective(),
        data=data,
        train=TrainConfig(steps=1, precision="fp32"),
        finetune=FINETUNE if classes else None,
        finetune_overrides=(*CLASSES_ALONE, *PAPER_FINETUNE),
    )


def class_names(
    stored: WeightFiles, naming: Naming, weight: str, names: Sequence[str] | None
) -> tuple[str, ...]:
    """Return the names of the classes in the order of the logits, or their numbers; none without a head."""
    head = naming.stored_names(stored.shapes).get(weight)
    if head is None:
        return ()
    count = stored.shapes[head][0]
    if names and len(names) != count:
        raise ValueError(f"the config names {len(names)} classes; the class head has {count} outputs")
    return tuple(names or map(str, range(count)))


def read_vit(
    stored: WeightFiles,
    recipe: Recipe,
    classes: tuple[str, ...],
    naming: Naming,
    table: Sequence[WeightMapping],
    origin: str,
) -> ImportedModel:
    """Return the model of these files, with learned position embeddings if the fixed ones differ."""
    width, mappings = recipe.model.width, tuple(expand_layers(table, recipe.model.depth))
    head = {"weight": torch.empty(len(classes), width), "bias": torch.empty(len(classes))}
    targets = recipe.outline().tensors() | {f"{CLASSIFIER}.{end}": each for end, each in head.items()}
    tensors, skipped = convert_tensors(stored, naming, mappings, targets)
    if recipe.model.positions == SinCosPositionEmbeddingSpec():
        fixed = sincos_table(recipe.grid, width)
        if not torch.allclose(tensors[TABLE], fixed, rtol=0, atol=FIXED_TOLERANCE):
            recipe = recipe.updated(positions=LearnedPositionEmbeddingSpec())
    return ImportedModel(
        origin=origin,
        recipe=recipe,
        codec=recipe.model.codec.placeholder(recipe.grid),
        tensors=tensors,
        skipped=skipped,
        head={end: tensors.pop(f"{CLASSIFIER}.{end}") for end in head if classes},
        classes=classes,
    )


HEADS = {"tiny": 3, "small": 6, "base": 12, "large": 16, "huge": 16}  # of timm's architectures
EPSILON = 1e-6  # of timm's layer norms
CROP_FRACTION = 0.875  # timm's default
LAYER = re.compile(r"blocks\.(\d+)\.")


class TimmImages(BaseModel):
    """`pretrained_cfg`: how images are prepared."""

    input_size: tuple[Literal[3], Number, Number]
    mean: Channels
    std: Channels
    interpolation: Literal["bilinear", "bicubic"]
    crop_mode: Literal["center", "squash"] = "center"
    crop_pct: Fraction = CROP_FRACTION


class TimmArguments(BaseModel):
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
    pretrained_cfg: TimmImages
    model_args: TimmArguments = TimmArguments()
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
