"""Learners: what the one training loop improves; a problem out of a batch, and a module that grades the
problem.
"""

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import torch
from torch import nn

from isopix.core.types import Images, Labels, Scalar
from isopix.data.patch_augment import NoPatchAugment, PatchAugmentSpec
from isopix.finetune.classifier import Classifier, Lesson
from isopix.objectives.base import Problem
from isopix.objectives.network import Network

NO_NOISE = NoPatchAugment()
Grades = Mapping[str, Scalar]


@runtime_checkable
class Learner(Protocol):
    """The loop's whole view of what it trains."""

    @property
    def module(self) -> nn.Module:
        """Holds the parameters; called with a problem, or a piece of one, it returns the loss."""

    def prepare(self, images: Images, labels: Labels | None, generator: torch.Generator) -> Any:
        """All that chance decides, for a whole batch at once: a problem with `to` and `pieces`."""

    def grade(self, images: Images, labels: Labels | None, generator: torch.Generator) -> Grades:
        """How good it is on these held-out images, by name, each a mean over them; `loss_nats` is that of
        codes, where they are learnt.
        """


class Pretraining:
    """The network's own objective; labels are not looked at. In training `noise` is done to what it is
    shown.
    """

    def __init__(self, network: Network, noise: PatchAugmentSpec = NO_NOISE):
        self.module, self.noise = network, noise

    def prepare(self, images: Images, labels: Labels | None, generator: torch.Generator) -> Problem:
        return _disturbed(self.module.prepare(images, generator), self.noise, self.module, generator)

    def grade(self, images: Images, labels: Labels | None, generator: torch.Generator) -> Grades:
        problem = self.module.prepare(images, generator).to(images.device)
        return {"loss_nats": self.module.nats(problem)}


class Finetuning:
    """The joint loss of codes and classes; every image has a label. In training `noise` is done to what the
    network is shown.
    """

    def __init__(self, classifier: Classifier, noise: PatchAugmentSpec = NO_NOISE):
        self.module, self.noise = classifier, noise

    def prepare(self, images: Images, labels: Labels | None, generator: torch.Generator) -> Lesson:
        lesson = self._lesson(images, labels, generator)
        problem = _disturbed(lesson.problem, self.noise, self.module.network, generator)
        return lesson._replace(problem=problem)

    def grade(self, images: Images, labels: Labels | None, generator: torch.Generator) -> Grades:
        lesson = self._lesson(images, labels, generator)
        return self.module.grade(lesson.to(images.device), images)

    def _lesson(self, images: Images, labels: Labels | None, generator: torch.Generator) -> Lesson:
        assert labels is not None, "require_labels has seen to it"
        return self.module.prepare(images, labels, generator)


def _disturbed(
    problem: Problem, noise: PatchAugmentSpec, network: Network, generator: torch.Generator
) -> Problem:
    """The problem with noise in what is shown, and not in what is asked."""
    return problem._replace(images=noise.apply(problem.images, network.codec.patch_size, generator))
