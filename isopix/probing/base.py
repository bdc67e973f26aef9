"""The interface of probe methods: a method fits classifiers to the features of layers, a few at a time."""

import abc
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from isopix.core.choices import Number
from isopix.core.registry import Part
from isopix.core.types import Labels
from isopix.probing.splits import Features, FeatureSplits

Probabilities = Float[Tensor, "F B C"]  # of each class; the highest is the prediction
Numbers = Sequence[Mapping[str, Number]]  # by name, of each layer


@dataclass(frozen=True)
class ProbeProblem:
    """The input of every method: features and labels of train and validation."""

    splits: FeatureSplits
    device: torch.device
    seed: int

    @cached_property
    def classes(self) -> Int[Tensor, " C"]:
        return torch.tensor(sorted(set(self.splits.train.labels.tolist())), device=self.device)

    def class_indices(self, labels: Labels) -> Labels:
        """Return the index of each label in `classes`; of a label that train does not have, any index."""
        indices = torch.searchsorted(self.classes, labels.to(self.classes.device))
        return indices.clamp(max=len(self.classes) - 1)

    def is_correct(self, predictions: Int[Tensor, "... B"], labels: Labels) -> Bool[Tensor, "... B"]:
        return self.classes[predictions] == labels.to(self.classes.device)

    def parts(self, num_layers: int) -> "Iterator[ProbeProblem]":
        """Divide the layers into problems of at most `num_layers`, or of one."""
        size = max(1, num_layers)
        for start in range(0, len(self.splits.train.features), size):
            yield replace(self, splits=self.splits.select_layers(start, start + size))


@dataclass(frozen=True)
class FittedProbe:
    """Classifiers of the next F layers, with what validation `selected` ({"L2 penalty": 1e-3})."""

    val_accuracy: Float[Tensor, " F"]
    predict_proba: Callable[[Features], Probabilities]
    selected: Numbers = ()
    fit: Numbers = ()


class ProbeMethod(Part, noun="probe"):
    """A classifier of frozen features; its fields are its settings."""

    streams: ClassVar[bool] = False
    """Whether it reads features a batch at a time, so that they may lie on disk in 16 bits."""

    def grid(self) -> Mapping[str, Sequence[Number]]:
        """Return the values that validation selects from, by name; selecting the first or last warns."""
        return {}

    def fixed(self, selected: Mapping[str, Number]) -> "ProbeMethod":
        """Return the same method with the selected values alone to select from."""
        return self

    @abc.abstractmethod
    def fit_layers(self, problem: ProbeProblem) -> Iterator[FittedProbe]:
        """Fit all layers in order, some at a time."""
