"""ViTConfig: sizes, preprocessing and class names of an imported Vision Transformer, checked before use."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from isopix.codecs import FullPatchSpec
from isopix.data.dataset import DataConfig
from isopix.data.resize import Resample
from isopix.finetuning.config import FineTuneConfig
from isopix.interop.weight_files import quote
from isopix.model.blocks.transformer import TransformerSpec
from isopix.model.heads import NoHeadSpec
from isopix.model.masking import DropMaskingSpec
from isopix.model.mlp import Activation, LayerNormSpec, TwoLayerMLPSpec
from isopix.model.positions import (
    LearnedPositionEmbeddingSpec,
    PositionEmbeddingSpec,
    SinCosPositionEmbeddingSpec,
)
from isopix.model.spec import ModelSpec
from isopix.model.stems.patches import PatchEmbedSpec
from isopix.objectives import Masked, NoObjective
from isopix.objectives.masks import exact_ratio_mask
from isopix.recipes.recipe import Recipe
from isopix.train.config import TrainConfig

MAXIMUM = 2**16  # of every size

CLASSES_ALONE = ("generative_weight=0.0", "mask_at_eval=false")  # there is no decoder to train jointly


@dataclass(frozen=True, kw_only=True)
class Preprocessing:
    """Which pixels an image becomes, and their normalization, (x / 255 - mean) / std."""

    mean: tuple[float, ...]
    std: tuple[float, ...]
    resample: Resample
    crop: Literal["resized_center", "squash"]
    crop_fraction: float = 1.0


@dataclass(frozen=True, kw_only=True)
class ViTConfig:
    """A Vision Transformer; `classes` are the names of its class head's outputs, none without a head.

    `mask_ratio` is MAE's: then the position embeddings are fixed, and masked patches are dropped.
    """

    depth: int
    width: int
    heads: int
    expansion: int
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

    def __post_init__(self) -> None:
        if self.width % self.heads:
            raise ValueError(f"width {self.width} is not a multiple of {self.heads} heads")
        if self.rows % self.patch_size or self.cols % self.patch_size:
            raise ValueError(
                f"images of {self.rows} x {self.cols} pixels cannot be cut into patches of {self.patch_size}"
            )
        if not 0 < self.epsilon < 1:
            raise ValueError(f"the epsilon of the layer norm is {self.epsilon}; it must be between 0 and 1")

    def recipe(self, *, fixed_positions: bool) -> Recipe:
        """Return the recipe of the network; training settings that are not known keep their defaults.

        Raises ValueError for sizes that no network has.
        """
        how = self.preprocessing
        patches = (self.rows // self.patch_size) * (self.cols // self.patch_size)
        finetune = FineTuneConfig(
            generative_weight=0.0, pool="first", head_bias=True, mask_at_eval=False, patience=None
        )
        return Recipe(
            name=f"vit.{self.depth}x{self.width}",
            model=self._model(fixed_positions),
            objective=NoObjective()
            if self.mask_ratio is None
            else Masked(
                mask=exact_ratio_mask(self.mask_ratio, patches),
                corruption=DropMaskingSpec(norm_positions=False),
            ),
            data=DataConfig(
                rows=self.rows,
                cols=self.cols,
                resample=how.resample,
                crop=how.crop,
                crop_fraction=how.crop_fraction,
            ),
            train=TrainConfig(steps=1, precision="fp32"),
            finetune=finetune if self.classes else None,
            finetune_overrides=CLASSES_ALONE
            if self.mask_ratio is None
            else (*CLASSES_ALONE, "mask_ratio=0.0"),
        )

    def _model(self, fixed_positions: bool) -> ModelSpec:
        positions: PositionEmbeddingSpec = LearnedPositionEmbeddingSpec()
        if fixed_positions:
            positions = SinCosPositionEmbeddingSpec()
        return ModelSpec(
            codec=FullPatchSpec(patch_size=self.patch_size),
            stem=PatchEmbedSpec(mean=self.preprocessing.mean, std=self.preprocessing.std),
            positions=positions,
            class_token=True,
            block=TransformerSpec(
                heads=self.heads,
                attention_bias=True,
                qkv_bias=None if self.qkv_bias else False,
                norm=LayerNormSpec(epsilon=self.epsilon),
                mlp=TwoLayerMLPSpec(expansion=self.expansion, activation=self.activation),
                dropout=self.dropout,
                attention_dropout=self.attention_dropout,
            ),
            depth=self.depth,
            width=self.width,
            head=NoHeadSpec(),
            init="vit",
            embedding_dropout=self.dropout if self.mask_ratio is None else 0.0,
        )


def integer(values: Mapping[str, Any], name: str) -> int:
    """Return a positive integer. Raises ValueError that names the setting."""
    value = values.get(name)
    if type(value) is not int or not 1 <= value <= MAXIMUM:
        raise ValueError(f"{name} is {quote(value)}; it must be an integer from 1 to {MAXIMUM}")
    return value


def number(values: Mapping[str, Any], name: str) -> float:
    """Return a number from 0 to 1. Raises ValueError that names the setting."""
    value = values.get(name)
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= 1:
        raise ValueError(f"{name} is {quote(value)}; it must be a number from 0 to 1")
    return float(value)


def channels(values: Mapping[str, Any], name: str) -> tuple[float, ...]:
    """Return three numbers. Raises ValueError that names the setting."""
    value = values.get(name)
    if (
        not isinstance(value, list)
        or len(value) != 3
        or any(type(each) not in (int, float) for each in value)
    ):
        raise ValueError(f"{name} is {quote(value)}; it must be a list of 3 numbers")
    return tuple(map(float, value))


def choice(values: Mapping[str, Any], name: str, allowed: Mapping[Any, Any]) -> Any:
    """Return what an allowed value stands for. Raises ValueError that names the setting and lists them."""
    value = values.get(name)
    if not isinstance(value, str | int) or value not in allowed:
        names = ", ".join(map(str, allowed))
        raise ValueError(f"{name} is {quote(value)}; allowed: {names}")
    return allowed[value]


def side(values: Mapping[str, Any], name: str) -> tuple[int, int]:
    """Return rows and columns, given as one integer or as two. Raises ValueError that names the setting."""
    value = values.get(name)
    pair = value if isinstance(value, list) and len(value) == 2 else [value, value]
    return integer({name: pair[0]}, name), integer({name: pair[1]}, name)


def expansion(width: int, inner: int, name: str) -> int:
    """Return how much wider the MLP is. Raises ValueError if it is not a whole multiple."""
    if inner % width:
        raise ValueError(f"{name} is {inner}; it must be a multiple of the width {width}")
    return inner // width
