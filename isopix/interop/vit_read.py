"""Import Vision Transformers: ViT and ViTMAE models of Hugging Face `transformers`."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel

from isopix.codecs import FullPatchSpec
from isopix.data.dataset import DataConfig
from isopix.data.resize import Resample
from isopix.finetuning.config import FineTuneConfig
from isopix.interop.imported_model import CLASSIFIER, ImportedModel, convert_tensors
from isopix.interop.name_tables import (
    ACTIVATION_NAMES,
    TABLE,
    VIT_NAMES,
    Naming,
    WeightMapping,
    expand_layers,
    pairs,
    vit_table,
)
from isopix.interop.weights import CONFIG, PROCESSOR, WeightFiles, open_weights, read_config
from isopix.model.blocks.transformer import TransformerSpec
from isopix.model.heads import NoHeadSpec
from isopix.model.masking import DropMaskingSpec
from isopix.model.mlp import Activation, LayerNormSpec, TwoLayerMLPSpec
from isopix.model.positions import LearnedPositionEmbeddingSpec, SinCosPositionEmbeddingSpec, sincos_table
from isopix.model.spec import ModelSpec
from isopix.model.stems.patches import PatchEmbedSpec
from isopix.objectives import Masked, NoObjective
from isopix.objectives.masks import exact_ratio_mask
from isopix.recipes.recipe import Recipe
from isopix.train.config import TrainConfig

FIXED_TOLERANCE = 1e-5  # between stored sine and cosine embeddings and computed ones
CLASSES_ALONE = ("generative_weight=0.0", "mask_at_eval=false")  # there is no decoder to train jointly
RESCALE_FACTOR = 1 / 255
RESAMPLING: dict[int, Resample] = {2: "bilinear", 3: "bicubic", 4: "area"}  # Pillow's numbers

Number = Annotated[int, Ge(1), Lt(2**16)]
Fraction = Annotated[float, Ge(0), Le(1)]
Channels = tuple[float, float, float]


@dataclass(frozen=True, kw_only=True)
class Preprocessing:
    """Which pixels an image becomes, and their normalization, (x / 255 - mean) / std."""

    mean: Channels
    std: Channels
    resample: Resample
    crop: Literal["resized_center", "squash"]
    crop_fraction: float = 1.0


@dataclass(frozen=True, kw_only=True)
class ViTSizes:
    """A Vision Transformer; `classes` are the names of its class head's outputs, none without a head.

    `mask_ratio` is MAE's: then the position embeddings are fixed, and masked patches are dropped.
    """

    depth: int
    width: int
    heads: int
    inner: int  # width of the MLP
    patch_size: int
    rows: int
    cols: int
    epsilon: float
    activation: Activation
    qkv_bias: bool
    dropout: float = 0.0  # of both branches and, but for MAE, of the embeddings
    attention_dropout: float = 0.0
    preprocessing: Preprocessing
    classes: tuple[str, ...] = ()
    mask_ratio: float | None = None

    def recipe(self, *, fixed_positions: bool) -> Recipe:
        """Return the recipe of the network; training settings that are not known keep their defaults.

        Raises ValueError for sizes that no network has.
        """
        how = self.preprocessing
        if self.rows % self.patch_size or self.cols % self.patch_size:
            raise ValueError(
                f"images of {self.rows} x {self.cols} cannot be cut into patches of {self.patch_size}"
            )
        finetune = FineTuneConfig(
            generative_weight=0.0, pool="first", head_bias=True, mask_at_eval=False, patience=None
        )
        patches = (self.rows // self.patch_size) * (self.cols // self.patch_size)
        masked = None
        if self.mask_ratio is not None:
            corruption = DropMaskingSpec(norm_positions=False)
            masked = Masked(mask=exact_ratio_mask(self.mask_ratio, patches), corruption=corruption)
        return Recipe(
            name=f"vit.{self.depth}x{self.width}",
            model=self._model(fixed_positions),
            objective=masked or NoObjective(),
            data=DataConfig(
                rows=self.rows,
                cols=self.cols,
                resample=how.resample,
                crop=how.crop,
                crop_fraction=how.crop_fraction,
            ),
            train=TrainConfig(steps=1, precision="fp32"),
            finetune=finetune if self.classes else None,
            finetune_overrides=(*CLASSES_ALONE, "mask_ratio=0.0") if masked else CLASSES_ALONE,
        )

    def _model(self, fixed_positions: bool) -> ModelSpec:
        expansion, rest = divmod(self.inner, self.width)
        if rest:
            raise ValueError(f"the MLP has width {self.inner}, which is not a multiple of {self.width}")
        return ModelSpec(
            codec=FullPatchSpec(patch_size=self.patch_size),
            stem=PatchEmbedSpec(mean=self.preprocessing.mean, std=self.preprocessing.std),
            positions=SinCosPositionEmbeddingSpec() if fixed_positions else LearnedPositionEmbeddingSpec(),
            class_token=True,
            block=TransformerSpec(
                heads=self.heads,
                attention_bias=True,
                qkv_bias=None if self.qkv_bias else False,
                norm=LayerNormSpec(epsilon=self.epsilon),
                mlp=TwoLayerMLPSpec(expansion=expansion, activation=self.activation),
                dropout=self.dropout,
                attention_dropout=self.attention_dropout,
            ),
            depth=self.depth,
            width=self.width,
            head=NoHeadSpec(),
            init="vit",
            embedding_dropout=self.dropout if self.mask_ratio is None else 0.0,
        )


def read_vit(
    stored: WeightFiles,
    sizes: ViTSizes,
    naming: Naming,
    table: Sequence[WeightMapping],
    origin: str,
) -> ImportedModel:
    """Return the model of these files; the last mapping is that of the class head, where there is one.

    Raises ValueError for a tensor that is missing, unknown, of another shape or not finite in float32.
    """
    fixed = sizes.mask_ratio is not None
    recipe, count = sizes.recipe(fixed_positions=fixed), len(sizes.classes)
    head = {"weight": torch.empty(count, sizes.width), "bias": torch.empty(count)}
    targets = recipe.outline().tensors() | {f"{CLASSIFIER}{end}": each for end, each in head.items()}
    tensors, reports = convert_tensors(stored, naming, tuple(expand_layers(table, sizes.depth)), targets)
    if fixed:
        expected = sincos_table(recipe.grid, sizes.width)
        if not torch.allclose(tensors[TABLE], expected, rtol=0, atol=FIXED_TOLERANCE):
            recipe = sizes.recipe(fixed_positions=False)
    codec = recipe.model.codec.placeholder(recipe.grid)
    return ImportedModel(origin, recipe, codec, tensors, reports, classes=sizes.classes)


class Config(BaseModel):
    """`config.json` of a supported ViT or ViTMAE."""

    model_type: str
    hidden_size: Number
    num_hidden_layers: Number
    num_attention_heads: Number
    intermediate_size: Number
    image_size: Number | tuple[Number, Number]
    patch_size: Number | tuple[Number, Number]
    layer_norm_eps: Annotated[float, Gt(0), Lt(1)]
    hidden_act: Literal[tuple(ACTIVATION_NAMES)]  # type: ignore[valid-type]
    qkv_bias: bool = True
    hidden_dropout_prob: Fraction = 0.0
    attention_probs_dropout_prob: Fraction = 0.0
    num_channels: Literal[3] = 3
    mask_ratio: Fraction = 0.75
    id2label: dict[str, str] | None = None


class ProcessorConfig(BaseModel):
    """`preprocessor_config.json` of a supported image processor."""

    do_rescale: Literal[True] = True
    rescale_factor: Annotated[float, Gt(0)] = RESCALE_FACTOR
    do_normalize: bool = True
    image_mean: Channels = (0.0, 0.0, 0.0)
    image_std: Channels = (1.0, 1.0, 1.0)
    resample: Literal[2, 3, 4] = 2
    do_resize: bool = True
    do_center_crop: bool | None = None
    size: Any = None
    crop_size: Any = None


def read_huggingface_vit(folder: Path, classes: tuple[str, ...] = ()) -> ImportedModel:
    """Import a ViTModel or ViTForImageClassification from a folder that `save_pretrained` wrote, with its
    image processor.

    `classes` replaces the names of the class head's outputs. A pooler, a mask token and a decoder of pixels
    are skipped, and reported. Raises ValueError, in one line that names the setting, tensor or file, for a
    model that would compute something else here.
    """
    return _read(folder, "vit", classes)


def read_mae(folder: Path) -> ImportedModel:
    """Import the encoder of a ViTMAEModel or ViTMAEForPreTraining from a folder that `save_pretrained` wrote,
    with its image processor; the decoder is skipped, and reported.

    Raises ValueError as `read_huggingface_vit` does.
    """
    return _read(folder, "vit_mae", ())


def _read(folder: Path, model_type: str, classes: tuple[str, ...]) -> ImportedModel:
    try:
        config = read_config(folder, CONFIG, Config)
        if config.model_type != model_type:
            raise ValueError(f"model_type is {config.model_type!r:.100}; it must be {model_type}")
        images, stored = read_config(folder, PROCESSOR, ProcessorConfig), open_weights(folder)
        sizes = _sizes(config, images, classes or _classes(config, stored))
        table = vit_table(sizes.patch_size, qkv_bias=sizes.qkv_bias)
        if sizes.classes:
            table = (*table, *pairs("classifier", "classifier"))
        return read_vit(stored, sizes, VIT_NAMES, table, f"Hugging Face {folder.resolve().name}")
    except ValueError as error:
        raise ValueError(f"{folder}: {error}") from None


def _sizes(config: Config, images: ProcessorConfig, classes: tuple[str, ...]) -> ViTSizes:
    rows, cols = _pair(config.image_size)
    patch_size, other = _pair(config.patch_size)
    if patch_size != other:
        raise ValueError(f"patch_size is {patch_size} x {other}; patches must be squares")
    return ViTSizes(
        depth=config.num_hidden_layers,
        width=config.hidden_size,
        heads=config.num_attention_heads,
        inner=config.intermediate_size,
        patch_size=patch_size,
        rows=rows,
        cols=cols,
        epsilon=config.layer_norm_eps,
        activation=ACTIVATION_NAMES[config.hidden_act],
        qkv_bias=config.qkv_bias,
        dropout=config.hidden_dropout_prob,
        attention_dropout=config.attention_probs_dropout_prob,
        preprocessing=_preprocessing(images, rows, cols),
        classes=classes,
        mask_ratio=config.mask_ratio if config.model_type == "vit_mae" else None,
    )


def _pair(size: int | tuple[int, int]) -> tuple[int, int]:
    return size if isinstance(size, tuple) else (size, size)


def _preprocessing(images: ProcessorConfig, rows: int, cols: int) -> Preprocessing:
    """Return the settings of an image processor. Raises ValueError for one that does something else."""
    if abs(images.rescale_factor / RESCALE_FACTOR - 1) > 1e-6:
        raise ValueError(f"rescale_factor is {images.rescale_factor}; only {RESCALE_FACTOR} is supported")
    if images.do_normalize and not {"image_mean", "image_std"} <= images.model_fields_set:
        raise ValueError("image_mean and image_std are missing")
    fraction = _crop_fraction(images, rows, cols)
    return Preprocessing(
        mean=images.image_mean if images.do_normalize else (0.0, 0.0, 0.0),
        std=images.image_std if images.do_normalize else (1.0, 1.0, 1.0),
        resample=RESAMPLING[images.resample],
        crop="squash" if fraction is None else "resized_center",
        crop_fraction=1.0 if fraction is None else fraction,
    )


def _crop_fraction(images: ProcessorConfig, rows: int, cols: int) -> float | None:
    """Return the fraction of the shorter side that a center crop keeps, None if images are resized as a
    whole. Raises ValueError unless they get the size of the model's.
    """
    wanted = ({"height": rows, "width": cols}, *([rows] if rows == cols else []))
    if images.do_center_crop:
        shorter = images.size.get("shortest_edge") if isinstance(images.size, dict) else None
        if not isinstance(shorter, int) or shorter < rows or rows != cols or images.crop_size not in wanted:
            raise ValueError(
                f"size {images.size!r:.100} and crop_size {images.crop_size!r:.100} are not supported; "
                f"shortest_edge must be at least {rows}, and the crop the model's square, {rows} x {cols}"
            )
        return rows / shorter
    if images.do_resize and images.size not in wanted:
        raise ValueError(f"size is {images.size!r:.100}; it must be height {rows} and width {cols}")
    return None


def _classes(config: Config, stored: WeightFiles) -> tuple[str, ...]:
    """Return the names of the classes in the order of the logits, none for a model without a class head."""
    weight = VIT_NAMES.stored_names(stored.shapes).get("classifier.weight")
    if weight is None:
        return ()
    numbers = list(map(str, range(stored.shapes[weight][0])))
    labels = config.id2label or {number: f"LABEL_{number}" for number in numbers}
    if set(labels) != set(numbers):
        raise ValueError(f"id2label has other classes than the {len(numbers)} outputs of the class head")
    return tuple(labels[number] for number in numbers)
