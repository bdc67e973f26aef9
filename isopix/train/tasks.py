"""Learners: what the one training loop improves; a problem out of a batch, and a module that grades the
problem.
"""

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import torch
from torch import nn

from isopix.core.types import Images, Labels, Scalar
from isopix.data.patch_augment import NoNoise, PatchAugmentationSpec
from isopix.finetune.classifier import Classifier, Lesson
from isopix.model.network import Network
from isopix.objectives.base import Augment, PretrainModel, TrainingBatch

NO_NOISE = NoNoise()
Grades = Mapping[str, Scalar]


@runtime_checkable
class Learner(Protocol):
    """The loop's whole view of what it trains."""

    @property
    def module(self) -> nn.Module:
        """Holds the parameters; called with a problem, or a piece of one, it returns the loss."""

    def prepare(self, images: Images, labels: Labels | None, generator: torch.Generator) -> Any:
        """All that chance decides, for a whole batch at once: a problem with `to` and `chunks`."""

    def grade(self, images: Images, labels: Labels | None, generator: torch.Generator) -> Grades:
        """How good it is on these held-out images, by name, each a mean over them; `loss_nats` is that of
        codes, where they are learnt.
        """


class Pretraining:
    """The network's own objective; labels are not looked at. In training `noise` is done to what it is
    shown.
    """

    def __init__(self, model: PretrainModel, noise: PatchAugmentationSpec = NO_NOISE):
        self.module, self.noise = model, noise

    def prepare(self, images: Images, labels: Labels | None, generator: torch.Generator) -> TrainingBatch:
        augment = _augment(self.noise, self.module.network, generator)
        return self.module.make_batch(images, generator, augment)

    def grade(self, images: Images, labels: Labels | None, generator: torch.Generator) -> Grades:
        batch = self.module.make_batch(images, generator).to(images.device)
        return {"loss_nats": self.module.eval_loss(batch)}


class Finetuning:
    """The joint loss of codes and classes; every image has a label. In training `noise` is done to what the
    network is shown.
    """

    def __init__(self, classifier: Classifier, noise: PatchAugmentationSpec = NO_NOISE):
        self.module, self.noise = classifier, noise

    def prepare(self, images: Images, labels: Labels | None, generator: torch.Generator) -> Lesson:
        assert labels is not None, "require_labels has seen to it"
        augment = _augment(self.noise, self.module.network, generator)
        return self.module.prepare(images, labels, generator, augment)

    def grade(self, images: Images, labels: Labels | None, generator: torch.Generator) -> Grades:
        assert labels is not None, "require_labels has seen to it"
        lesson = self.module.prepare(images, labels, generator)
        return self.module.grade(lesson.to(images.device), images)


def _augment(noise: PatchAugmentationSpec, network: Network, generator: torch.Generator) -> Augment:
    """What `noise` does to the images that a network of this patch size is shown."""
    return lambda images: noise.disturb(images, network.codec.patch_size, generator)
