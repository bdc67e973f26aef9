"""Linear classifiers of several layers that are trained together, on one batch of features at a time.

Features may lie in 16 bits on disk, mapped into memory: only one batch of them is converted at a time.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import torch
from einops import rearrange
from jaxtyping import Float, Int
from torch import Tensor

from isopix.core.types import Labels
from isopix.probing.base import FittedProbe, Probabilities, ProbeProblem
from isopix.probing.feature_splits import Features, FeatureSplit, Standardizer

MAX_BYTES = 2**31  # memory of the weights of the layers that are trained together


def layer_groups(problem: ProbeProblem, floats_per_feature: int) -> Iterator[ProbeProblem]:
    """Yield the problem of as many of the next layers as fit in memory at this many floats per feature."""
    count, _, width = problem.splits.train.features.shape
    size = max(1, MAX_BYTES // (4 * floats_per_feature * width))
    for start, stop in pairwise([*range(0, count, size), count]):
        yield replace(problem, splits=problem.splits.select_layers(start, stop))


@dataclass(frozen=True)
class LinearClassifiers:
    """A linear classifier for each layer and learning rate; those of one layer in C = R K columns."""

    matrix: Float[Tensor, "F D C"]
    intercepts: Float[Tensor, "F 1 C"]
    num_rates: int

    @staticmethod
    def zeros(problem: ProbeProblem, num_rates: int = 1) -> "LinearClassifiers":
        """Return zero weights for all layers of a problem."""
        layers, _, width = problem.splits.train.features.shape
        columns = num_rates * len(problem.classes)
        matrix, intercepts = (
            torch.zeros(layers, rows, columns, device=problem.device) for rows in (width, 1)
        )
        return LinearClassifiers(matrix, intercepts, num_rates)

    def logits(self, x: Features) -> Float[Tensor, "F B R K"]:
        logits = torch.baddbmm(self.intercepts, x, self.matrix)
        return rearrange(logits, "f b (r k) -> f b r k", r=self.num_rates)

    def loss_and_gradients(
        self, x: Features, targets: Labels
    ) -> tuple[Float[Tensor, "F R"], "LinearClassifiers"]:
        """Return the mean cross-entropy of a batch, in nats, and its gradients."""
        log_probabilities, index = self.logits(x).log_softmax(-1), torch.arange(len(targets))
        losses = -log_probabilities[:, index, :, targets].mean(0)
        errors = log_probabilities.exp()
        errors[:, index, :, targets] -= 1
        flat = rearrange(errors / len(targets), "f b r k -> f b (r k)")
        return losses, LinearClassifiers(x.mT @ flat, flat.sum(1, keepdim=True), self.num_rates)

    def take(self, selected: Int[Tensor, " F"]) -> "LinearClassifiers":
        """Return those of one learning rate per layer."""
        layers, pair = torch.arange(len(selected)), (self.matrix, self.intercepts)
        apart = (rearrange(each, "f d (r k) -> f r d k", r=self.num_rates) for each in pair)
        matrix, intercepts = (each[layers, selected.to(each.device)] for each in apart)
        return LinearClassifiers(matrix, intercepts, 1)

    def evaluate(self, images: "BatchReader") -> tuple[Float[Tensor, "F R"], Float[Tensor, "F R"]]:
        """Return mean nats per image, and accuracy, on the CPU."""
        losses, correct = torch.zeros(2, len(self.matrix), self.num_rates, dtype=torch.float64)
        for x, labels in images.chunks():
            logits, targets = self.logits(x), images.problem.class_indices(labels)
            nats = -logits.log_softmax(-1)[:, torch.arange(len(labels)), :, targets]  # [B F R]
            known = images.problem.is_correct(targets, labels)  # a class that train does not have has no loss
            losses += (nats * known[:, None, None]).double().sum(0).cpu()
            predictions = rearrange(logits.argmax(-1), "f b r -> f r b")
            correct += images.problem.is_correct(predictions, labels).sum(-1).cpu()
        return losses / len(images), correct / len(images)

    def fitted(
        self,
        train: "BatchReader",
        val_accuracy: Float[Tensor, " F"],
        diagnostics: list[dict[str, Any]],
    ) -> FittedProbe:
        """Return the probe of these classifiers, one per layer, with their training loss as the objective."""
        objectives = self.evaluate(train)[0][:, 0].tolist()
        complete = [{**each, "objective": nats} for each, nats in zip(diagnostics, objectives, strict=True)]

        def predict_proba(features: Features) -> Probabilities:
            return self.logits(train.standardizer(features))[:, :, 0].softmax(-1)

        return FittedProbe(val_accuracy, predict_proba, complete)


class BatchReader:
    """Images of a split, standardized, a batch of them at a time on the problem's device."""

    def __init__(self, split: FeatureSplit, problem: ProbeProblem, standardizer: Standardizer | None = None):
        self.split, self.problem = split, problem
        self.standardizer = standardizer or Standardizer.fit(split, problem.splits.stored_scale).to(
            problem.device
        )

    def __len__(self) -> int:
        return len(self.split)

    def take(self, indices: Int[Tensor, " B"]) -> tuple[Features, Labels]:
        """Return the images at these indices."""
        return self._standardized(self.split.select(indices))

    def chunks(self) -> Iterator[tuple[Features, Labels]]:
        """Iterate over all images."""
        return map(self._standardized, self.split.chunks())

    def _standardized(self, split: FeatureSplit) -> tuple[Features, Labels]:
        return self.standardizer(split.features.to(self.problem.device)), split.labels
