"""The base classes and functions for plugins: `from isopix import parts`.

A part is a subclass of a base class below, registered by `@parts.register("kind")` and selected by its
setting, such as `model.block.mlp.kind=gated`; load the file by `--plugin my_parts.py` or
`isopix.load_plugin("my_parts.py")`. Its fields are settings below the same path.

| part | base class | builds or returns | setting |
|---|---|---|---|
| codec | `CodecSpec` | `Codec` | `model.codec` |
| stem | `StemSpec` | `Stem` | `model.stem` |
| positions | `PositionEmbeddingSpec` | `PositionEmbedding` | `model.positions` |
| block | `BlockSpec` | `Block` | `model.block` |
| mlp | `MLPSpec` | `MLP` | `model.block.mlp` |
| norm | `NormSpec` | `Norm` | `model.block.norm` |
| head | `HeadSpec` | `Likelihood` | `model.head` |
| objective | `ObjectiveSpec` | `TrainingBatch` | `objective` |
| mask | `MaskSpec` | `Mask` | `objective.mask` |
| corruption | `MaskingSpec` | `Masking` | `objective.corruption` |
| augmentation | `AugmentationSpec` | `Images` | `data.augment` |
| patch_augment | `PatchAugmentSpec` | `Images` | `data.patch_augment` |
| optimizer | `OptimizerSpec` | `torch.optim.Optimizer`, any | `train.optimizer` |
| schedule | `ScheduleSpec` | a factor of the learning rate | `train.schedule` |
| evaluator | `EvaluatorSpec` | `Metrics` | `train.evaluators` |
| probe | `ProbeMethod` | `FittedProbe` | `isopix probe --method` |
| analysis | `Analysis` | `Numbers`, `Figure`, a caption | `isopix analyze --only` |
| recipe | a function with `@parts.recipe("name")` | `Recipe` | its name |

`init` of a part of a network returns the initialization of its parameters by name (`InitTable`): `Normal`,
`Uniform`, `Glorot`, `Constant`, `Zeros` or `Ones`. Of other parameters, weights and biases of linear layers,
convolutions and embeddings are initialized to N(0, 0.02^2) and 0; all others keep the values that the part
set.
"""

from isopix.analysis.base import Analysis, AnalysisInput, Numbers, image_source
from isopix.codecs.base import Codec, CodecSpec, StatelessCodecSpec
from isopix.core import registry as _registry
from isopix.core.random import generator
from isopix.core.registry import Part, kinds, nouns, register
from isopix.core.text import Table
from isopix.core.types import (
    Codes,
    Grid,
    Images,
    Labels,
    Logits,
    LossMask,
    Mask,
    PositionIndices,
    Scalar,
    SelectedTokens,
    Tokens,
)
from isopix.data.augment import AugmentationSpec
from isopix.data.dataset import DataConfig, ImageDataset
from isopix.data.patch_augment import PatchAugmentSpec
from isopix.model.attention import Attention
from isopix.model.blocks.transformer import Block, BlockSpec
from isopix.model.heads import Categorical, HeadSpec, Likelihood
from isopix.model.init import Constant, Draw, Glorot, InitScheme, InitTable, Normal, Ones, Uniform, Zeros
from isopix.model.masking import Masking, MaskingSpec, ZeroMaskingSpec
from isopix.model.mlp import MLP, LayerNormSpec, MLPSpec, Norm, NormSpec, RMSNormSpec
from isopix.model.network import Network
from isopix.model.positions import PositionEmbedding, PositionEmbeddingSpec, Rotation
from isopix.model.spec import ModelSpec
from isopix.model.stems.pixels import Components, Inputs, Stem, StemSpec
from isopix.objectives.base import ObjectiveSpec, PretrainModel, TrainingBatch
from isopix.objectives.masks import MaskSpec
from isopix.plots.style import Figure, figure_style, new_figure
from isopix.probing.probe import FittedProbe, ProbeMethod, ProbeProblem
from isopix.recipes.recipe import Recipe
from isopix.recipes.registry import recipe
from isopix.train.config import OptimizerSpec, ScheduleSpec, TrainConfig
from isopix.train.evaluator import EvaluationContext, Evaluator, EvaluatorSpec, Metrics

__all__ = sorted(name for name in globals() if not name.startswith("_"))  # noqa: PLE0605  what is imported

for _package in ("isopix.probing", "isopix.analysis"):
    _registry.import_modules(_package)  # so that no file of one's own parts can replace one
