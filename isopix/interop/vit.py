"""ViTSizes: a Vision Transformer of another library as a recipe, and its weights by a table of names."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from annotated_types import Ge, Le, Lt

from isopix.codecs.patches import FullPatchSpec
from isopix.data.dataset import DataConfig
from isopix.data.preprocess import Resample
from isopix.finetuning.config import FineTuneConfig
from isopix.interop.imported_model import ImportedModel, convert_tensors
from isopix.interop.name_tables import TABLE, Naming, WeightMapping, expand_layers
from isopix.interop.weights import WeightFiles
from isopix.model.blocks.transformer import TransformerSpec
from isopix.model.heads import NoHeadSpec
from isopix.model.masking import DropMaskingSpec
from isopix.model.mlp import Activation, LayerNormSpec, TwoLayerMLPSpec
from isopix.model.positions import LearnedPositionEmbeddingSpec, SinCosPositionEmbeddingSpec, sincos_table
from isopix.model.spec import ModelSpec
from isopix.model.stems.patches import PatchEmbedSpec
from isopix.objectives.masks import exact_ratio_mask
from isopix.objectives.objectives import Masked, NoObjective
from isopix.recipes.recipe import Recipe
from isopix.runs.state import CLASSIFIER
from isopix.train.config import TrainConfig

FIXED_TOLERANCE = 1e-5  # between stored sine and cosine embeddings and computed ones
CLASSES_ALONE = ("generative_weight=0.0", "mask_at_eval=false")  # there is no decoder to train jointly

Number = Annotated[int, Ge(1), Lt(2**16)]
Fraction = Annotated[float, Ge(0), Le(1)]
Channels = tuple[float, float, float]


@dataclass(frozen=True, kw_only=True)
class ViTSizes:
    """A Vision Transformer, and which pixels an image becomes, normalized by (x / 255 - mean) / std.

    `classes` are the names of its class head's outputs, none without a head. `mask_ratio` is MAE's: then the
    position embeddings are fixed, and masked patches are dropped.
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
    mean: Channels
    std: Channels
    resample: Resample
    crop: Literal["resized_center", "squash"]
    crop_fraction: float = 1.0
    classes: tuple[str, ...] = ()
    mask_ratio: float | None = None

    def recipe(self, *, fixed_positions: bool) -> Recipe:
        """Return the recipe of the network; training settings that are not known keep their defaults.

        Raises ValueError for sizes that no network has.
        """
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
                resample=self.resample,
                crop=self.crop,
                crop_fraction=self.crop_fraction,
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
            stem=PatchEmbedSpec(mean=self.mean, std=self.std),
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
