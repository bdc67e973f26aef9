"""Training tasks: a batch made of images and labels, and a module that computes its loss."""

from collections.abc import Iterator, Mapping
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from isopix.core.types import Images, Labels, Scalar
from isopix.data.patch_augment import NoPatchAugment, PatchAugmentSpec
from isopix.model.network import Network
from isopix.objectives.base import Augment, PretrainModel, TrainingBatch

NO_PATCH_AUGMENT = NoPatchAugment()

Metric = Float[Tensor, "*images"]  # a mean over the images of a batch, or the values [B] of each


@runtime_checkable
class Batch(Protocol):
    """The input of a task's module."""

    def to(self, device: torch.device) -> "Batch":
        """Return the batch on a device."""

    def chunks(self, count: int) -> Iterator["Batch"]:
        """Split the batch into `count` parts along images, of sizes that differ by one at most."""


@runtime_checkable
class TrainingTask(Protocol):
    """What is trained: a module, its batches, the losses of a batch, and metrics."""

    @property
    def module(self) -> nn.Module:
        """The module in training."""

    def make_batch(self, images: Images, labels: Labels | None, generator: torch.Generator) -> Batch:
        """Return the training batch of these images; all random draws come from `generator`."""

    def losses(self, batch: Batch) -> Mapping[str, Scalar]:
        """Return the training losses of a batch by name, as in the log; the first of them is minimized."""

    def evaluate(
        self, images: Images, labels: Labels | None, generator: torch.Generator
    ) -> Mapping[str, Metric]:
        """Return metrics by name; `loss_nats` is the loss per predicted code."""


class PretrainTask:
    """Pre-training on the network's own objective; `patch_augment` changes the inputs in training only."""

    def __init__(self, model: PretrainModel, patch_augment: PatchAugmentSpec = NO_PATCH_AUGMENT):
        self.module, self.patch_augment = model, patch_augment

    def make_batch(self, images: Images, labels: Labels | None, generator: torch.Generator) -> TrainingBatch:
        augment = augment_patches(self.patch_augment, self.module.network, generator)
        return self.module.make_batch(images, generator, augment)

    def losses(self, batch: Batch) -> dict[str, Scalar]:
        assert isinstance(batch, TrainingBatch)
        return {"loss_nats": self.module(batch)}

    def evaluate(
        self, images: Images, labels: Labels | None, generator: torch.Generator
    ) -> dict[str, Scalar]:
        batch = self.module.make_batch(images, generator).to(images.device)
        return {"loss_nats": self.module.eval_loss(batch)}


def augment_patches(patch_augment: PatchAugmentSpec, network: Network, generator: torch.Generator) -> Augment:
    """Return the augmentation of the inputs of this network, whose randomness comes from `generator`."""
    return lambda images: patch_augment.apply(images, network.codec.patch_size, generator)
