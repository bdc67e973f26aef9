"""The interface of probe methods: a method fits classifiers to the features of layers, a few at a time."""

import abc
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from isopix.core.registry import Part
from isopix.core.types import Labels
from isopix.probing.feature_splits import Features, FeatureSplits

Probabilities = Float[Tensor, "F B C"]  # of each class; the highest is the prediction
PredictProba = Callable[[Features], Probabilities]


@dataclass(frozen=True)
class ProbeProblem:
    """The input of every method: features and labels of train and validation, and the values to search."""

    splits: FeatureSplits
    classes: Int[Tensor, " C"]  # sorted
    device: torch.device
    l2_grid: tuple[float, ...]
    l2_extra: tuple[float, ...]
    seed: int

    def class_indices(self, labels: Labels) -> Labels:
        """Return the index of each label in `classes`; of a label that train does not have, any index."""
        indices = torch.searchsorted(self.classes, labels.to(self.classes.device))
        return indices.clamp(max=len(self.classes) - 1)

    def is_correct(self, predictions: Int[Tensor, "... B"], labels: Labels) -> Bool[Tensor, "... B"]:
        """Compare predictions, as indices into `classes`, with the labels."""
        return self.classes[predictions] == labels.to(self.classes.device)


@dataclass(frozen=True)
class FittedProbe:
    """Classifiers of the next F layers, each at the setting that validation selected.

    `val_accuracy` are fractions of images. `predict_proba` takes the unstandardized features of these layers,
    on the problem's device; `diagnostics` are a dict for each layer with further fields of its `LayerScore`:
    l2, lr, neighbors, objective, grad_norm, iterations, or none of them.
    """

    val_accuracy: Float[Tensor, " F"]
    predict_proba: PredictProba
    diagnostics: list[dict[str, Any]]


class ProbeMethod(Part, noun="probe"):
    """A classifier of frozen features; its fields are its settings."""

    @property
    def streams(self) -> bool:
        """Whether it reads features a batch at a time, so that they may lie on disk in 16 bits."""
        return False

    @abc.abstractmethod
    def grid(self, l2_grid: tuple[float, ...]) -> tuple[str, tuple[float, ...]]:
        """Return the `LayerScore` field that validation selects and the values searched, whose smallest and
        largest cause a warning; no values where the ends mean nothing. `l2_grid` are all L2 penalties.
        """

    def fix(self, setting: int | float) -> "ProbeMethod":
        """Return the same method with this setting alone to select from; L2 penalties are not its own."""
        return self

    @abc.abstractmethod
    def fit_layers(self, problem: ProbeProblem) -> Iterator[FittedProbe]:
        """Fit all layers in order, some at a time."""
