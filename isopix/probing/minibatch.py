"""Logistic regression by stochastic gradients, of several layers and learning rates together, on batches of
features that may lie in 16 bits on disk.
"""

import abc
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Annotated

import torch
from einops import rearrange, repeat
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F

from isopix.core.choices import Count, Number, Range, check_ranges
from isopix.core.registry import register
from isopix.core.types import Labels
from isopix.data.batches import ShuffledIndices, steps_per_epoch
from isopix.probing.base import FittedProbe, Probabilities, ProbeMethod, ProbeProblem
from isopix.probing.splits import Features, FeatureSplit, Standardizer
from isopix.train.optim import WarmupCosineSchedule

LEARNING_RATE = "learning rate"  # what validation selects
LR_GRID = (30.0, 10.0, 3.0, 1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001, 0.0003, 0.0001)
BETAS, EPSILON = (0.9, 0.999), 1e-7  # Keras's defaults, as in pre-training
WARMUP_EPOCHS = 1.0
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


@register("sgd")
class SgdProbe(MinibatchProbe):
    """Logistic regression by SGD with momentum and cosine decay to zero; learning rates are tried in
    descending order until the final validation loss rises (iGPT section 3.4, ImageNet; a million iterations
    there).

    Batch size and weight decay are not stated; 256 and none are inferred from MoCo (He et al. 2019), whose
    protocol the section follows. Every learning rate starts from zero weights and sees the same batches.
    """

    iterations: Count = 3000
    """Updates of the weights."""
    batch_size: Count = 256
    """Images of an update."""
    momentum: Annotated[float, Range(low=0, below=1)] = 0.9
    """Momentum."""
    lr_grid: tuple[float, ...] = LR_GRID
    """Learning rates to try, in this order."""

    def label(self) -> str:
        return "logistic regression (SGD)"

    def __post_init__(self) -> None:
        check_ranges(self)
        descending = all(before > after for before, after in pairwise(self.lr_grid))
        if not self.lr_grid or not descending or not self.lr_grid[-1] > 0 or math.isinf(self.lr_grid[0]):
            raise ValueError(
                f"lr_grid {self.lr_grid} must be one or more positive numbers in descending order"
            )

    def rates(self) -> tuple[float, ...]:
        return self.lr_grid

    def fixed(self, selected: Mapping[str, Number]) -> "SgdProbe":
        return replace(self, lr_grid=(selected[LEARNING_RATE],))

    def train(self, images: BatchReader) -> tuple[LinearClassifiers, list[int]]:
        problem, count = images.problem, len(images.split.features)
        weights, velocity = (LinearClassifiers.zeros(problem, len(self.lr_grid)) for _ in range(2))
        columns = repeat(torch.tensor(self.lr_grid), "r -> 1 1 (r k)", k=len(problem.classes))
        columns = columns.to(problem.device)
        for step, batch in enumerate(images.shuffled(self.batch_size, self.iterations)):
            _, (matrix, intercepts) = weights.loss_and_gradients(*batch)
            lr = columns * (0.5 + 0.5 * math.cos(math.pi * step / self.iterations))
            velocity.matrix.mul_(self.momentum).add_(matrix)
            velocity.intercepts.mul_(self.momentum).add_(intercepts)
            weights.matrix.sub_(lr * velocity.matrix)
            weights.intercepts.sub_(lr * velocity.intercepts)
        return weights, [self.iterations] * count


@register("adam")
class AdamProbe(MinibatchProbe):
    """Logistic regression without a penalty, by Adam: one epoch of linear warmup to `lr`, then cosine decay
    over `epochs` or until convergence (Cazenavette and Lucey 2021, section 4.2).

    The paper does not define convergence. Here a layer has converged, and its weights stay as they are, once
    its mean training loss over an epoch has not fallen below (1 - `tolerance`) times its lowest so far for
    `patience` epochs in a row. Not stated either: weights start at zero, and features are standardized.
    """

    lr: Annotated[float, Range(above=0)] = 0.01
    """Peak learning rate."""
    epochs: Count = 100
    """Largest number of epochs."""
    batch_size: Count = 128
    """Images of an update."""
    tolerance: Annotated[float, Range(low=0, below=1)] = 1e-4
    """Relative decrease of the training loss that counts as progress."""
    patience: Count = 10
    """Epochs without progress before a layer has converged."""

    floats_per_weight = 4  # weights, gradients and both moments

    def label(self) -> str:
        return "logistic regression (Adam)"

    def rates(self) -> tuple[float, ...]:
        return (self.lr,)

    def train(self, images: BatchReader) -> tuple[LinearClassifiers, list[int]]:
        problem, epoch = images.problem, steps_per_epoch(len(images), self.batch_size)
        steps = (round(WARMUP_EPOCHS) + self.epochs) * epoch
        schedule = WarmupCosineSchedule(warmup_epochs=WARMUP_EPOCHS, max_warmup_fraction=0.5)
        adam = _Adam(LinearClassifiers.zeros(problem))
        stop = _Convergence(len(images.split.features), self.tolerance, self.patience)
        total = torch.zeros(len(stop.num_epochs), device=problem.device)
        for step, batch in enumerate(images.shuffled(self.batch_size, steps)):
            losses, gradients = adam.weights.loss_and_gradients(*batch)
            adam.step(gradients, self.lr * schedule.factor(step, steps=steps, epoch=epoch), stop.converged)
            total += losses[:, 0]
            if (step + 1) % epoch == 0:
                stop.update(total.cpu() / epoch)
                total.zero_()
                if stop.converged.all():
                    break
        return adam.weights, [epoch * count for count in stop.num_epochs]


class _Adam:
    """Adam (Kingma and Ba 2015, algorithm 1) of all layers; one that has converged is left as it is."""

    def __init__(self, weights: LinearClassifiers):
        self.weights, self.num_steps = weights, 0
        self._moments = [
            (tensor, torch.zeros_like(tensor), torch.zeros_like(tensor))
            for tensor in (weights.matrix, weights.intercepts)
        ]

    def step(self, gradients: tuple[Tensor, Tensor], lr: float, converged: Bool[Tensor, " F"]) -> None:
        self.num_steps += 1
        first, second = (1 - beta**self.num_steps for beta in BETAS)  # bias corrections
        rates = torch.where(converged, 0.0, lr / first)[:, None, None]
        for (tensor, mean, square), gradient in zip(self._moments, gradients, strict=True):
            mean.lerp_(gradient, 1 - BETAS[0])
            square.mul_(BETAS[1]).addcmul_(gradient, gradient, value=1 - BETAS[1])
            change = mean / (square.sqrt() / second**0.5 + EPSILON)
            tensor.sub_(rates.to(tensor) * change)


class _Convergence:
    """Which layers have converged, by their mean training loss over each epoch."""

    def __init__(self, num_layers: int, tolerance: float, patience: int):
        self.tolerance, self.patience = tolerance, patience
        self.lowest = torch.full((num_layers,), torch.inf)
        self.waited = torch.zeros(num_layers, dtype=torch.long)
        self.converged = torch.zeros(num_layers, dtype=torch.bool)
        self.num_epochs = [0] * num_layers

    def update(self, losses: Float[Tensor, " F"]) -> None:
        """Take the losses of the next epoch."""
        counts = zip(self.num_epochs, self.converged.tolist(), strict=True)
        self.num_epochs = [count + (not done) for count, done in counts]
        falls = losses < (1 - self.tolerance) * self.lowest
        self.waited = torch.where(falls, 0, self.waited + 1)
        self.lowest = torch.minimum(self.lowest, losses)
        self.converged |= self.waited >= self.patience
