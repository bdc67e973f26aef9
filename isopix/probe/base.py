"""Method: a way to tell classes by features; given a task, it solves a few layers after another."""

import abc
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from isopix.core.registry import Part
from isopix.core.types import Labels
from isopix.probe.feature_splits import Features, Splits

Probabilities = Float[Tensor, "F B C"]  # of each class; the highest is the answer
Classify = Callable[[Features], Probabilities]


@dataclass(frozen=True)
class Task:
    """What every method is given: train and validation of `splits`, and how it may use them.

    `strengths` and `weaker` are of penalties.
    """

    splits: Splits
    classes: Int[Tensor, " C"]  # sorted
    device: torch.device
    strengths: tuple[float, ...]
    weaker: tuple[float, ...]
    seed: int

    def targets(self, labels: Labels) -> Labels:
        """The place of each label among the classes; of one that train never shows, any."""
        places = torch.searchsorted(self.classes, labels.to(self.classes.device))
        return places.clamp(max=len(self.classes) - 1)

    def right(self, answers: Int[Tensor, "... B"], labels: Labels) -> Bool[Tensor, "... B"]:
        """Which answers, as places among the classes, are the labels."""
        return self.classes[answers] == labels.to(self.classes.device)


@dataclass(frozen=True)
class Solved:
    """The next F layers, each at the setting that validation chose.

    `validation` are accuracies; `classify` takes features of these layers as they were given, on the task's
    device; `told` is what else a `LayerScore` says of each layer, by its fields' names.
    """

    validation: Float[Tensor, " F"]
    classify: Classify
    told: list[dict[str, Any]]


class ProbeMethod(Part, noun="probe"):
    """Settings of a way to tell classes by features."""

    @property
    def stored(self) -> bool:
        """Whether it reads features a batch at a time, so that they may lie on a disk in 16 bits."""
        return False

    @abc.abstractmethod
    def grid(self, strengths: tuple[float, ...]) -> tuple[str, tuple[float, ...]]:
        """The field of a `LayerScore` that validation chooses, and the values whose ends are to be warned of;
        none where ends mean nothing. `strengths` are all that a penalty may have.
        """

    def only(self, setting: int | float) -> "ProbeMethod":
        """The same with this setting alone to choose from; a penalty's strength is not its own."""
        return self

    @abc.abstractmethod
    def solve(self, task: Task) -> Iterator[Solved]:
        """All layers in order, some at a time."""
