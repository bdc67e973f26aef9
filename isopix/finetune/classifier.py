"""The fine-tuned model: a class head on a pre-trained network, and the joint loss of classes and codes."""

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from isopix.core.random import generator as seeded
from isopix.core.types import Images, Labels, Mask, Scalar
from isopix.finetune.config import FineTuneConfig
from isopix.model.backbone import States
from isopix.model.heads import ClassHead, ClassLogits
from isopix.model.init import initialise
from isopix.model.pool import POOLS
from isopix.objectives.base import Loss, Problem, pose
from isopix.objectives.masked import Masked
from isopix.objectives.masks import scattered
from isopix.objectives.network import Network


class LabeledBatch(NamedTuple):
    """A batch of the objective, and the classes of its images.

    `dropout_mask` multiplies the features of the class head; `weights` are the images' weights in L_CLF.
    """

    batch: Problem
    labels: Labels
    dropout_mask: Float[Tensor, "B D"]
    weights: Float[Tensor, " B"]

    def to(self, device: torch.device) -> "LabeledBatch":
        """Return the batch on a device."""
        batch, *rest = self
        return LabeledBatch(batch.to(device), *(item.to(device, non_blocking=True) for item in rest))

    def chunks(self, count: int) -> Iterator["LabeledBatch"]:
        """Split the batch into `count` parts along images, of sizes that differ by one at most."""
        batch, *rest = self
        split = (item.tensor_split(count) for item in rest)
        return (LabeledBatch(*items) for items in zip(batch.chunks(count), *split, strict=True))


class FineTuneModel(nn.Module):
    """A pre-trained network with a class head.

    The output layer starts at zero, so that the untrained loss is exactly ln C; a residual block before it
    starts as `seed` decides. Parameters that the loss does not depend on are frozen.
    """

    def __init__(
        self, network: Network, width: int, num_classes: int, settings: FineTuneConfig, *, seed: int = 0
    ):
        super().__init__()
        self.network, self.settings = _with_mask_ratio(network, settings.mask_ratio), settings
        depth = network.backbone.depth
        self.layer = settings.layer_index(depth)
        self.head = ClassHead(width, num_classes, residual_block=settings.residual_block).to(network.device)
        if self.head.block is not None:
            initialise(self.head.block, width=width, depth=depth, generator=seeded(seed, "classifier"))
        self._freeze_unused()

    def make_batch(self, images: Images, labels: Labels, generator: torch.Generator) -> LabeledBatch:
        """Return the network's own batch, or an unmasked one, with the classes and a dropout mask."""
        batch = self._make_batch(images, generator)
        dropout_mask = torch.ones(len(images), self.head.weight.shape[1])
        if self.settings.dropout:
            keep = 1 - self.settings.dropout
            dropout_mask = (torch.rand(dropout_mask.shape, generator=generator) < keep).float() / keep
        return LabeledBatch(batch, labels, dropout_mask, torch.full((len(images),), 1 / len(images)))

    def _make_batch(self, images: Images, generator: torch.Generator) -> Problem:
        if self.settings.mask_ratio != 0:
            return self.network.prepare(images, generator)
        codec = self.network.codec
        targets = torch.zeros(len(images), codec.grid.positions, codec.num_codes, dtype=torch.long)
        loss_mask = torch.zeros(*targets.shape[:2], 1, dtype=torch.bool)
        return pose(images, None, targets.to(images.device), loss_mask.to(images.device))

    def forward(self, labeled: LabeledBatch) -> Loss:
        """Return the joint loss."""
        batch, settings = labeled.batch, self.settings
        if not settings.has_class_loss:
            return self.network(batch)
        if not settings.has_generative_loss:
            [states] = self.network.backbone.some([self.layer], batch.images, batch.hidden)
            return self._training_class_loss(states, labeled)
        states, last = self._states(batch)
        generative = self.network.objective.loss(last, batch, self.network.head)
        return float(settings.generative_weight) * generative + self._training_class_loss(states, labeled)

    def evaluate(self, labeled: LabeledBatch, images: Images) -> dict[str, Scalar]:
        """Return `loss_nats` per predicted code if L_GEN is trained, `class_nats` per image and `accuracy`.

        `images` are those of the batch without corruption, which are classified unless `mask_at_eval`.
        """
        batch = labeled.batch
        unmasked = batch.hidden is not None and not self.settings.mask_at_eval
        if not self.settings.has_generative_loss:
            inputs = (images, None) if unmasked else (batch.images, batch.hidden)
            return self._class_metrics(self.predict(*inputs), labeled)
        states, last = self._states(batch)
        nats = self.network.objective.nats(last, batch, self.network.head)
        logits = self.predict(images) if unmasked else self.class_logits(states)
        return {"loss_nats": nats, **self._class_metrics(logits, labeled)}

    def predict(self, images: Images, mask: Mask | None = None) -> ClassLogits:
        """Return the class logits [B C] of images."""
        [states] = self.network.backbone.some([self.layer], images, mask)
        return self.class_logits(states)

    def class_logits(self, states: States, dropout_mask: Float[Tensor, "B D"] | None = None) -> ClassLogits:
        """Return the class logits [B C] of hidden states."""
        pooled = POOLS[self.settings.pool](states, self.network.backbone.leading)
        return self.head(pooled, dropout_mask)

    def _class_metrics(self, logits: ClassLogits, labeled: LabeledBatch) -> dict[str, Scalar]:
        accuracy = (logits.argmax(1) == labeled.labels).float().mean()
        return {"class_nats": self._class_loss(logits, labeled), "accuracy": accuracy}

    def _training_class_loss(self, states: States, labeled: LabeledBatch) -> Loss:
        """Return L_CLF with dropout and label smoothing."""
        logits = self.class_logits(states, labeled.dropout_mask)
        return self._class_loss(logits, labeled, self.settings.label_smoothing)

    def _class_loss(self, logits: ClassLogits, labeled: LabeledBatch, smoothing: float = 0.0) -> Scalar:
        losses = F.cross_entropy(logits, labeled.labels, reduction="none", label_smoothing=smoothing)
        return (losses * labeled.weights).sum()

    def _states(self, batch: Problem) -> list[States]:
        """Return the hidden states that the class head reads, and those that the head of codes reads."""
        backbone = self.network.backbone
        states, last = backbone.some([self.layer, backbone.depth], batch.images, batch.hidden)
        return [states, backbone.read(last, batch.hidden)]

    def _freeze_unused(self) -> None:
        """Freeze what the loss does not depend on, so that the optimizer keeps no state of it."""
        unused: set[nn.Parameter] = set()
        backbone = self.network.backbone
        if not self.settings.has_generative_loss:
            unused = set(self.network.parameters()) - set(backbone.upto(self.layer).parameters())
        if self.settings.mask_ratio == 0:
            unused |= set(backbone.masking.parameters())
        if not self.settings.has_class_loss:
            unused = set(self.head.parameters())
        for parameter in unused:
            parameter.requires_grad_(False)


def _with_mask_ratio(network: Network, mask_ratio: float | None) -> Network:
    """Return the network with random masks of this fraction of the positions in its objective.

    Raises ValueError for an objective without masks, and for a grid that is too small.
    """
    if mask_ratio is None:
        return network
    objective = network.objective
    if not isinstance(objective, Masked):
        raise ValueError(
            f"finetune.mask_ratio {mask_ratio} does not go with objective {objective.kind}, "
            "which masks nothing"
        )
    if mask_ratio == 0:
        return network
    mask = scattered(mask_ratio, network.backbone.grid.positions)
    return Network(network.codec, network.backbone, network.head, replace(objective, mask=mask))
