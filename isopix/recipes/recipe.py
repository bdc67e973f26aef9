"""Recipe: the complete settings of a run, and the network that they describe."""

import dataclasses
from typing import Any

import torch
from torch import nn

from isopix.codecs.base import Codec
from isopix.core.config import config
from isopix.core.random import generator
from isopix.core.types import Grid
from isopix.data.dataset import Data
from isopix.finetune.classifier import Classify
from isopix.model.backbone import Backbone
from isopix.model.init import initialise
from isopix.model.spec import ModelSpec
from isopix.objectives.autoregressive import Autoregressive
from isopix.objectives.base import ObjectiveSpec
from isopix.objectives.network import Network
from isopix.train.config import TrainConfig

NETWORK = ("model", "objective")  # groups that are decided once there are weights


@config
class Recipe:
    """An experiment: a model, its objective, data and training; with `finetune` it also learns classes."""

    name: str
    model: ModelSpec
    objective: ObjectiveSpec = Autoregressive()
    data: Data = Data()
    train: TrainConfig = TrainConfig()
    finetune: Classify | None = None

    def __post_init__(self) -> None:
        rows, cols, patch = self.data.rows, self.data.cols, self.model.codec.cell
        if rows % patch or cols % patch:
            raise ValueError(
                f"images of {rows} x {cols} pixels cannot be cut into patches of {patch} x {patch}"
            )

    @property
    def grid(self) -> Grid:
        """The grid of positions: pixels, or patches."""
        return Grid(self.data.rows // self.model.codec.cell, self.data.cols // self.model.codec.cell)

    @property
    def learns_codes(self) -> bool:
        """Whether codes are predicted in training, and not left behind by fine-tuning."""
        return self.finetune is None or self.finetune.generates

    def updated(self, **changes: Any) -> "Recipe":
        """Return the recipe with fields changed by name, wherever they stand: its own, or of `model` or
        `train`. Raises TypeError for a name that none has.
        """
        groups: dict[str, Any] = {}
        for name in ("model", "train"):
            group = changes.pop(name, getattr(self, name))
            own = {item.name for item in dataclasses.fields(group)} & changes.keys()
            groups[name] = dataclasses.replace(group, **{field: changes.pop(field) for field in own})
        return dataclasses.replace(self, **groups, **changes)

    def build(self, codec: Codec) -> Network:
        """Return the network before its first step; every weight is a function of the seed.

        Raises ValueError for parts that do not fit together.
        """
        network, model = self.assemble(codec), self.model
        draw = generator(self.train.seed, "initialise")
        initialise(network, width=model.width, depth=model.depth, generator=draw, initial=model.init)
        return network

    def assemble(self, codec: Codec) -> Network:
        """Return that network before any weight is drawn; under `torch.device("meta")` it takes no memory.

        Raises ValueError for parts that do not fit together.
        """
        self._check_parts(codec)
        model, objective, grid, width = self.model, self.objective, codec.grid, self.model.width
        parts = [
            model.stem.build(codec, width),
            objective.corruption.build(width),
            model.positions.build(grid, width),
        ]
        own, turns = (1, model.depth) if model.tie_blocks else (model.depth, 1)
        blocks = [model.block.build(grid, width, objective.causal) for _ in range(own)] * turns
        token = nn.Parameter(torch.zeros(width)) if model.class_token else None
        pos_norm = objective.corruption.build_pos_norm(model.block.norm, width)
        backbone = Backbone(grid, parts, blocks, model.block.norm.build(width), token, pos_norm)
        return Network(codec, backbone, model.head.build(codec, width), objective)

    def _check_parts(self, codec: Codec) -> None:
        """Raises ValueError for parts of which each is possible, and which do not go together."""
        model, objective = self.model, self.objective
        drops = objective.corruption.drops_tokens
        if model.class_token and objective.causal:
            raise ValueError("class_token does not go with a causal network, in which it would see nothing")
        if (model.class_token or drops) and not model.block.anywhere:
            what = "class_token" if model.class_token else f"objective.corruption={objective.corruption.kind}"
            raise ValueError(f"{what} does not go with block {model.block.kind}, which needs the whole grid")
        if self.train.compile and drops:
            raise ValueError(
                f"compile=true does not go with objective.corruption={objective.corruption.kind}"
            )
        self._check_head()
        objective.require(codec.grid)
        parts = model.stem.parts(codec)
        if objective.single_codes and codec.codes not in (1, parts):
            raise ValueError(
                f"a mask of single codes needs a stem with one part for each of {codec.codes} codes; "
                f"{model.stem.kind} has {parts}"
            )

    def _check_head(self) -> None:
        """Raises ValueError for an objective that needs probabilities from a head without any."""
        head, objective = self.model.head, self.objective
        if head.categorical:
            return
        if objective.paints:
            raise ValueError(
                f"head {head.kind} does not go with objective {objective.kind}, which draws codes "
                "by their chances; take objective=masked"
            )
        if objective.smoothing:
            raise ValueError(
                f"head {head.kind} has no labels to smooth; objective.smoothing "
                f"{objective.smoothing} must be 0"
            )
