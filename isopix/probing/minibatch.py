"""Logistic regression by stochastic gradients, of several layers and learning rates together, on batches of
features that may lie in 16 bits on disk.
"""

import abc
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

import torch
from einops import rearrange
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from isopix.core.types import Labels
from isopix.data.batches import ShuffledIndices
from isopix.probing.base import FittedProbe, Probabilities, ProbeMethod, ProbeProblem
from isopix.probing.splits import Features, FeatureSplit, Standardizer

LEARNING_RATE = "learning rate"  # what validation selects
MAX_BYTES = 2**31  # memory of the weights of the layers that are trained together


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
        matrix = torch.zeros(layers, width, columns, device=problem.device)
        return LinearClassifiers(matrix, matrix.new_zeros(layers, 1, columns), num_rates)

    def logits(self, x: Features) -> Float[Tensor, "F B R K"]:
        logits = torch.baddbmm(self.intercepts, x, self.matrix)
        return rearrange(logits, "f b (r k) -> f b r k", r=self.num_rates)

    def loss_and_gradients(
        self, x: Features, targets: Labels
    ) -> tuple[Float[Tensor, "F R"], tuple[Tensor, Tensor]]:
        """Return the mean cross-entropy of a batch, in nats, and the gradients of matrix and intercepts."""
        log_probabilities, index = self.logits(x).log_softmax(-1), torch.arange(len(targets))
        losses = -log_probabilities[:, index, :, targets].mean(0)
        errors = log_probabilities.exp()
        errors[:, index, :, targets] -= 1
        flat = rearrange(errors / len(targets), "f b r k -> f b (r k)")
        return losses, (x.mT @ flat, flat.sum(1, keepdim=True))

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


class BatchReader:
    """Images of a split, standardized, a batch of them at a time on the problem's device."""

    def __init__(self, split: FeatureSplit, problem: ProbeProblem, standardizer: Standardizer | None = None):
        self.split, self.problem = split, problem
        fitted = standardizer or Standardizer.fit(split, problem.splits.stored_scale)
        self.standardizer = fitted.to(problem.device)

    def __len__(self) -> int:
        return len(self.split)

    def shuffled(self, batch_size: int, steps: int) -> Iterator[tuple[Features, Labels]]:
        """Yield a batch and the indices of its classes for each step."""
        seed = self.problem.seed
        order = ShuffledIndices(len(self), batch_size=batch_size, seed=seed, purpose="probe.order")
        for step in range(steps):
            x, labels = self._standardized(self.split.select(order.indices(step)))
            yield x, self.problem.class_indices(labels)

    def chunks(self) -> Iterator[tuple[Features, Labels]]:
        """Iterate over all images."""
        return map(self._standardized, self.split.chunks())

    def _standardized(self, split: FeatureSplit) -> tuple[Features, Labels]:
        return self.standardizer(split.features.to(self.problem.device)), split.labels


class MinibatchProbe(ProbeMethod):
    """Logistic regression by stochastic gradients, at one learning rate or several."""

    streams = True
    floats_per_weight = 2  # weights and velocities

    @abc.abstractmethod
    def rates(self) -> tuple[float, ...]:
        """Return the learning rates to train with, in descending order."""

    @abc.abstractmethod
    def train(self, images: BatchReader) -> tuple[LinearClassifiers, list[int]]:
        """Return the weights of each layer at each learning rate, and the steps of each layer."""

    def grid(self) -> Mapping[str, tuple[float, ...]]:
        return {LEARNING_RATE: self.rates()}

    def fit_layers(self, problem: ProbeProblem) -> Iterator[FittedProbe]:
        floats = self.floats_per_weight * len(self.rates()) * len(problem.classes)
        count, _, width = problem.splits.train.features.shape
        size = max(1, MAX_BYTES // (4 * floats * width))
        for start, stop in pairwise([*range(0, count, size), count]):
            yield self._fit(replace(problem, splits=problem.splits.select_layers(start, stop)))

    def _fit(self, problem: ProbeProblem) -> FittedProbe:
        train = BatchReader(problem.splits.train, problem)
        validation = BatchReader(problem.splits.validation, problem, train.standardizer)
        weights, steps = self.train(train)
        losses, accuracies = weights.evaluate(validation)
        selected = last_before_rise(losses)
        kept = weights.take(selected)

        def predict_proba(features: Features) -> Probabilities:
            return kept.logits(train.standardizer(features))[:, :, 0].softmax(-1)

        rates = torch.tensor(self.rates(), dtype=torch.float64)[selected].tolist()
        objectives = kept.evaluate(train)[0][:, 0].tolist()
        return FittedProbe(
            accuracies.gather(1, selected[:, None])[:, 0],
            predict_proba,
            selected=[{LEARNING_RATE: rate} for rate in rates],
            fit=[{"objective": each, "iterations": n} for each, n in zip(objectives, steps, strict=True)],
        )


def last_before_rise(losses: Float[Tensor, "F R"]) -> Int[Tensor, " F"]:
    """Return for each layer the index of the last of descending learning rates before its loss rises."""
    finite = losses.nan_to_num(torch.inf, posinf=torch.inf)
    rises = F.pad(finite[:, 1:] > finite[:, :-1], (0, 1), value=True)
    return rises.long().argmax(1)  # the first of equals
