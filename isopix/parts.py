"""Parts of your own: what a file needs that registers a new block, codec, objective, probe or other part.

A part is a class of settings, registered under the noun of its base class by `@parts.register("kind")`:

| base class | setting path | is |
|---|---|---|
| CodecSpec | model.codec | images to integer codes and back |
| StemSpec | model.stem | images or codes to one vector per position |
| PositionEmbeddingSpec | model.positions | position embeddings |
| BlockSpec | model.block | tokens to tokens |
| MLPSpec, NormSpec | model.block.mlp, model.block.norm | parts of a block |
| HeadSpec | model.head | tokens to logits |
| ObjectiveSpec | objective | images to a training batch and its loss |
| MaskSpec | objective.mask | which positions are masked |
| MaskingSpec | objective.corruption | what the blocks see in place of a masked position |
| AugmentationSpec, PatchAugmentSpec | data.augment, data.patch_augment | augmentations |
| OptimizerSpec, ScheduleSpec | train.optimizer, train.schedule | optimizers and schedules |
| EvaluatorSpec | train.evaluators | metrics during training |
| ProbeMethod | isopix probe --method | classifiers of features |

Load the file with `--plugin FILE` on the command line or `isopix.load_plugin(FILE)` in Python; see
`examples/extend`.
"""

from isopix.codecs.base import Codec, CodecSpec
from isopix.codecs.stateless import StatelessCodecSpec
from isopix.core.random import generator
from isopix.core.registry import Part, kinds, nouns, register
from isopix.core.types import Codes, Grid, Images, Labels, Logits, LossMask, Mask, PositionIndices, Tokens
from isopix.data.augment import AugmentationSpec
from isopix.data.patch_augment import PatchAugmentSpec
from isopix.model.attention import Attention
from isopix.model.blocks.base import Block, BlockSpec
from isopix.model.heads import HeadSpec
from isopix.model.init import Constant, Draw, Glorot, InitScheme, InitTable, Normal, Ones, Uniform, Zeros
from isopix.model.likelihood import Likelihood
from isopix.model.masking import Masking, MaskingSpec, ZeroMaskingSpec
from isopix.model.mlp import MLPSpec
from isopix.model.network import Network
from isopix.model.norms import LayerNormSpec, NormSpec, RMSNormSpec
from isopix.model.positions import PositionEmbedding, PositionEmbeddingSpec
from isopix.model.stems.base import Components, Stem, StemSpec
from isopix.objectives.base import ObjectiveSpec, PretrainModel, TrainingBatch
from isopix.objectives.masks import MaskSpec
from isopix.probe.base import FittedProbe, ProbeMethod, ProbeProblem
from isopix.recipes.recipe import Recipe
from isopix.recipes.registry import recipe
from isopix.train.evaluator import EvaluationContext, Evaluator, EvaluatorSpec, Metrics
from isopix.train.optim import OptimizerSpec
from isopix.train.schedule import ScheduleSpec

__all__ = [
    "Attention",
    "AugmentationSpec",
    "Block",
    "BlockSpec",
    "Codec",
    "CodecSpec",
    "Codes",
    "Components",
    "Constant",
    "Draw",
    "EvaluationContext",
    "Evaluator",
    "EvaluatorSpec",
    "FittedProbe",
    "Glorot",
    "Grid",
    "HeadSpec",
    "Images",
    "InitScheme",
    "InitTable",
    "Labels",
    "LayerNormSpec",
    "Likelihood",
    "Logits",
    "LossMask",
    "MLPSpec",
    "Mask",
    "MaskSpec",
    "Masking",
    "MaskingSpec",
    "Metrics",
    "Network",
    "NormSpec",
    "Normal",
    "ObjectiveSpec",
    "Ones",
    "OptimizerSpec",
    "Part",
    "PatchAugmentSpec",
    "PositionEmbedding",
    "PositionEmbeddingSpec",
    "PositionIndices",
    "PretrainModel",
    "ProbeMethod",
    "ProbeProblem",
    "RMSNormSpec",
    "Recipe",
    "ScheduleSpec",
    "StatelessCodecSpec",
    "Stem",
    "StemSpec",
    "Tokens",
    "TrainingBatch",
    "Uniform",
    "ZeroMaskingSpec",
    "Zeros",
    "generator",
    "kinds",
    "nouns",
    "recipe",
    "register",
]
