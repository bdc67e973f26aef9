"""Recipe: the complete settings of a run, and the network that they describe."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, cast

from torch import Tensor

from isopix.codecs.base import Codec
from isopix.core.config import config
from isopix.core.overrides import parse
from isopix.core.random import generator
from isopix.core.types import Grid
from isopix.data import rand_augment  # noqa: F401  registers it
from isopix.data.dataset import DataConfig
from isopix.finetuning.classifier import FineTuneConfig
from isopix.model.network import Network, parameters_on_meta, unsaved_tensors
from isopix.model.positions import Pool, default_pool
from isopix.model.spec import ModelSpec
from isopix.objectives import denoising, prefix  # noqa: F401  registers their kinds
from isopix.objectives.base import ObjectiveSpec
from isopix.objectives.objectives import Autoregressive
from isopix.probing import evaluators  # noqa: F401  registers them
from isopix.train import muon  # noqa: F401  registers it
from isopix.train.config import TrainConfig

NETWORK = ("model", "objective")  # groups that are decided once there are weights


PAPERS: dict[str, "tuple[Callable[[], Recipe], ...]"] = {}
"""Recipes by the group before the dot of their names; after it stands the name of the function."""


@config
class Recipe:
    """An experiment: a model, its objective, data and training; with `finetune` a classifier is trained."""

    name: str
    """Name of the recipe."""
    model: ModelSpec
    """The network."""
    objective: ObjectiveSpec = Autoregressive()
    """What is predicted, from which inputs."""
    data: DataConfig = DataConfig()
    """Images, resolution and splits."""
    train: TrainConfig = TrainConfig()
    """Optimization, evaluation and checkpoints."""
    finetune: FineTuneConfig | None = None
    """Settings of a fine-tuned classifier; null for pre-training."""
    finetune_overrides: tuple[str, ...] = ()
    """Settings of fine-tuning that differ from iGPT's, as `path=value`."""

    def __post_init__(self) -> None:
        if self.finetune is not None and self.train.patience is not None:
            raise ValueError("train.patience is that of pre-training; set finetune.patience")
        rows, cols, patch = self.data.rows, self.data.cols, self.model.codec.patch_size
        if rows % patch or cols % patch:
            patches = f"patches of {patch} x {patch}"
            raise ValueError(f"images of {rows} x {cols} pixels cannot be cut into {patches}")

    @property
    def grid(self) -> Grid:
        patch = self.model.codec.patch_size
        return Grid(self.data.rows // patch, self.data.cols // patch)

    @property
    def pool(self) -> Pool:
        """The pool that a class head or a probe reads: fine-tuning's, or the class token, or the mean."""
        if self.finetune is not None:
            return self.finetune.pool
        own = parse(self.finetune_overrides)
        given = own.get("finetune.pool", own.get("pool", default_pool(int(self.model.class_token))))
        return cast("Pool", given)

    @property
    def predicts_codes(self) -> bool:
        """Whether the training loss includes codes; False for fine-tuning on classes alone."""
        trained = self.finetune is None or self.finetune.has_generative_loss
        return trained and self.model.head.predicts_codes

    @property
    def patience(self) -> int | None:
        """Evaluations without a better one that end the run; None if they select no step."""
        if self.finetune is None:
            return self.train.patience
        return self.finetune.patience if self.finetune.has_class_loss else None

    @property
    def selects_step(self) -> bool:
        """Whether the weights with the best validation accuracy, in pre-training the loss, are kept."""
        return self.patience is not None

    def updated(self, **changes: Any) -> "Recipe":
        """Return the recipe with other groups, or other settings of model, train and data."""
        groups: dict[str, Any] = {}
        for name in ("model", "train", "data"):
            group = changes.pop(name, getattr(self, name))
            own = {item.name for item in dataclasses.fields(group)} & changes.keys()
            groups[name] = dataclasses.replace(group, **{field: changes.pop(field) for field in own})
        return dataclasses.replace(self, **groups, **changes)

    def build(self, codec: Codec) -> Network:
        """Return the network before its first step; every weight is a function of the seed."""
        self._check(codec)
        return self.model.build(codec, self.objective, generator(self.train.seed, "initialise"))

    def assemble(self, codec: Codec) -> Network:
        self._check(codec)
        return self.model.assemble(codec, self.objective)

    def outline(self) -> Network:
        """Return the network without memory for its weights, with a codec that is not fitted to images."""
        return self._without_weights(self.model.codec.placeholder(self.grid))

    def restore(self, codec: Codec, weights: Mapping[str, Tensor]) -> Network:
        """Return the network with these weights, made without memory for others."""
        network = self._without_weights(codec)
        network.load(weights)
        return network

    def _without_weights(self, codec: Codec) -> Network:
        try:
            with parameters_on_meta():
                network = self.assemble(codec)
        except (RuntimeError, TypeError):  # a part reads its parameters as it is made
            return self.assemble(codec)
        needs_values = any(each.is_meta for each in unsaved_tensors(network).values())
        return self.assemble(codec) if needs_values else network

    def _check(self, codec: Codec) -> None:
        objective, positions = self.objective, codec.grid.positions
        drops = objective.corruption.drops_tokens
        if self.train.compile and drops and objective.num_visible(positions, codec.num_codes) is None:
            raise ValueError(
                f"compile=true is not possible with objective.corruption={objective.corruption.kind} and a "
                "mask of varying size; use objective.mask=block without random_rate and keep_rate"
            )
        self.objective.check_grid(codec.grid)
