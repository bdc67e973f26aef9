"""Logistic regression by SGD or Adam, of several layers and learning rates together."""

import abc
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Annotated

import torch
from einops import rearrange, repeat
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from isopix.core.choices import Count, Number, PositiveNumber, Range
from isopix.core.registry import register
from isopix.core.types import Labels
from isopix.data.batches import ShuffledIndices, steps_per_epoch
from isopix.probing.probe import FittedProbe, Probabilities, ProbeMethod, ProbeProblem
from isopix.probing.splits import Features, FeatureSplit, Standardizer
from isopix.train.config import WarmupCosineSchedule

LEARNING_RATE = "learning rate"  # what validation selects
LR_GRID = (30.0, 10.0, 3.0, 1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001, 0.0003, 0.0001)
BETAS, EPSILON = (0.9, 0.999), 1e-7  # Keras's defaults, as in pre-training
WARMUP_EPOCHS = 1.0
MAX_BYTES = 2**31  # memory of the weights of the layers that are trained together


class Classifiers(abc.ABC):
    """A classifier for each layer and learning rate."""

    @abc.abstractmethod
    def logits(self, x: Features) -> Float[Tensor, "F B R K"]:
        """Return the logits of standardized features."""

    @abc.abstractmethod
    def take(self, selected: Int[Tensor, " F"]) -> "Classifiers":
        """Return the classifier of each layer at the selected learning rate."""

    def evaluate(self, images: "BatchReader") -> tuple[Float[Tensor, "F R"], Float[Tensor, "F R"]]:
        """Return the mean cross-entropy, in nats, and the accuracy of each layer and learning rate."""
        problem = images.problem
        losses, correct = torch.zeros(2, 1, 1, dtype=torch.float64)
        for x, labels in images.chunks():
            logits, targets = self.logits(x), problem.class_indices(labels)
            nats = -logits.log_softmax(-1)[:, torch.arange(len(labels)), :, targets]  # [B F R]
            known = problem.is_correct(targets, labels)  # a class that train does not have has no loss
            losses = losses + (nats * known[:, None, None]).double().sum(0).cpu()
            predictions = rearrange(logits.argmax(-1), "f b r -> f r b")
            correct = correct + problem.is_correct(predictions, labels).sum(-1).cpu()
        return losses / len(images.split), correct / len(images.split)


@dataclass(frozen=True)
class LinearClassifiers(Classifiers):
    """A linear classifier for each layer and learning rate; those of one layer in C = R K columns."""

    matrix: Float[Tensor, "F D C"]
    intercepts: Float[Tensor, "F 1 C"]
    num_rates: int

    @staticmethod
    def zeros(problem: ProbeProblem, num_rates: int = 1) -> "LinearClassifiers":
        layers, _, width = problem.splits.train.features.shape
        columns = num_rates * len(problem.classes)
        matrix = torch.zeros(layers, width, columns, device=problem.device)
        return LinearClassifiers(matrix, matrix.new_zeros(layers, 1, columns), num_rates)

    @property
    def tensors(self) -> tuple[Tensor, Tensor]:
        return self.matrix, self.intercepts

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
        apart = (rearrange(each, "f d (r k) -> f r d k", r=self.num_rates) for each in self.tensors)
        layers = torch.arange(len(selected))
        matrix, intercepts = (each[layers, selected.to(each.device)] for each in apart)
        return LinearClassifiers(matrix, intercepts, 1)


@dataclass(frozen=True)
class BatchReader:
    """Images of a split, standardized, a batch of them at a time on the problem's device."""

    split: FeatureSplit
    problem: ProbeProblem
    standardizer: Standardizer

    def shuffled(self, batch_size: int, steps: int) -> Iterator[tuple[Features, Labels]]:
        seed = self.problem.seed
        order = ShuffledIndices(len(self.split), batch_size=batch_size, seed=seed, purpose="probe.order")
        for step in range(steps):
            x, labels = self._standardized(self.split.select(order.indices(step)))
            yield x, self.problem.class_indices(labels)

    def chunks(self) -> Iterator[tuple[Features, Labels]]:
        return map(self._standardized, self.split.chunks())

    def _standardized(self, split: FeatureSplit) -> tuple[Features, Labels]:
        return self.standardizer(split.features.to(self.problem.device)), split.labels


class MinibatchProbe(ProbeMethod):
    """Logistic regression by stochastic gradients, at one learning rate or several."""

    streams = True
    floats_per_weight = 2  # weights and velocities

    @abc.abstractmethod
    def grid(self) -> Mapping[str, tuple[float, ...]]:
        """Return the learning rates to train with, in descending order."""

    @abc.abstractmethod
    def train(self, images: BatchReader) -> tuple[Classifiers, list[int]]:
        """Return the weights of each layer at each learning rate, and the steps of each layer."""

    def fit_layers(self, problem: ProbeProblem) -> Iterator[FittedProbe]:
        width = problem.splits.train.features.shape[2]
        floats = self.floats_per_weight * len(self.grid()[LEARNING_RATE]) * len(problem.classes) * width
        return map(self._fit, problem.parts(MAX_BYTES // (4 * floats)))

    def _fit(self, problem: ProbeProblem) -> FittedProbe:
        splits = problem.splits
        standardizer = Standardizer.fit(splits.train.features).to(problem.device)
        parts = (splits.train, splits.validation)
        train, validation = (BatchReader(split, problem, standardizer) for split in parts)
        weights, steps = self.train(train)
        losses, accuracies = weights.evaluate(validation)
        selected = last_before_rise(losses)
        kept = weights.take(selected)

        def predict_proba(features: Features) -> Probabilities:
            return kept.logits(standardizer(features))[:, :, 0].softmax(-1)

        rates = torch.tensor(self.grid()[LEARNING_RATE], dtype=torch.float64)[selected].tolist()
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


class DescendingRates(MinibatchProbe):
    """Trains at learning rates that descend until the validation loss rises, each from the same start."""

    iterations: Count = 3000
    """Updates of the weights."""
    batch_size: Count = 256
    """Images of an update."""
    lr_grid: tuple[float, ...] = LR_GRID
    """Learning rates to try, in this order."""

    def __post_init__(self) -> None:
        super().__post_init__()
        falls = all(before > after for before, after in pairwise(self.lr_grid))
        if not (self.lr_grid and falls and self.lr_grid[-1] > 0 and math.isfinite(self.lr_grid[0])):
            raise ValueError(f"lr_grid {self.lr_grid} must be positive numbers in descending order")

    def grid(self) -> Mapping[str, tuple[float, ...]]:
        return {LEARNING_RATE: self.lr_grid}

    def fixed(self, selected: Mapping[str, Number]) -> "DescendingRates":
        return replace(self, lr_grid=(selected[LEARNING_RATE],))

    def lr_factor(self, step: int) -> float:
        """Return the factor of a learning rate at a step: cosine decay to zero."""
        return 0.5 + 0.5 * math.cos(math.pi * step / self.iterations)


@register("sgd", "logistic regression (SGD)")
class SgdProbe(DescendingRates):
    """SGD with momentum and cosine decay to zero; learning rates descend until the validation loss rises.

    iGPT section 3.4, ImageNet (a million iterations there); batch size 256 and no weight decay are inferred
    from MoCo (He et al. 2019). Every learning rate starts from zero weights and sees the same batches.
    """

    momentum: Annotated[float, Range(low=0, below=1)] = 0.9
    """Momentum."""

    def train(self, images: BatchReader) -> tuple[LinearClassifiers, list[int]]:
        problem = images.problem
        weights = LinearClassifiers.zeros(problem, len(self.lr_grid))
        velocities = [torch.zeros_like(each) for each in weights.tensors]
        rates = repeat(torch.tensor(self.lr_grid), "r -> 1 1 (r k)", k=len(problem.classes))
        rates = rates.to(problem.device)
        for step, batch in enumerate(images.shuffled(self.batch_size, self.iterations)):
            _, gradients = weights.loss_and_gradients(*batch)
            lr = rates * self.lr_factor(step)
            for tensor, velocity, gradient in zip(weights.tensors, velocities, gradients, strict=True):
                velocity.mul_(self.momentum).add_(gradient)
                tensor.sub_(lr * velocity)
        return weights, [self.iterations] * len(weights.matrix)


@register("adam", "logistic regression (Adam)")
class AdamProbe(MinibatchProbe):
    """Adam without a penalty: one epoch of warmup, then cosine decay over `epochs` or until convergence.

    Cazenavette and Lucey 2021, section 4.2. Not stated there, and our choice: zero initial weights,
    standardized features, and that a layer has converged, and stays as it is, once its mean training loss has
    not fallen below (1 - `tolerance`) times its lowest so far for `patience` epochs in a row.
    """

    lr: PositiveNumber = 0.01
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

    def grid(self) -> Mapping[str, tuple[float, ...]]:
        return {LEARNING_RATE: (self.lr,)}

    def train(self, images: BatchReader) -> tuple[LinearClassifiers, list[int]]:
        problem = images.problem
        weights = LinearClassifiers.zeros(problem)
        means, squares = ([torch.zeros_like(each) for each in weights.tensors] for _ in range(2))
        epoch, num_layers = steps_per_epoch(len(images.split), self.batch_size), len(weights.matrix)
        steps = (round(WARMUP_EPOCHS) + self.epochs) * epoch
        schedule = WarmupCosineSchedule(warmup_epochs=WARMUP_EPOCHS, max_warmup_fraction=0.5)
        total, lowest = torch.zeros(num_layers, device=problem.device), torch.full((num_layers,), torch.inf)
        waited, num_epochs = torch.zeros(2, num_layers, dtype=torch.long)
        for step, batch in enumerate(images.shuffled(self.batch_size, steps), start=1):
            losses, gradients = weights.loss_and_gradients(*batch)
            lr = self.lr * schedule.factor(step - 1, steps=steps, epoch=epoch)
            layer_lrs = torch.where(waited >= self.patience, 0.0, lr / (1 - BETAS[0] ** step))[:, None, None]
            moments = zip(weights.tensors, means, squares, gradients, strict=True)
            for tensor, mean, square, gradient in moments:
                mean.lerp_(gradient, 1 - BETAS[0])
                square.mul_(BETAS[1]).addcmul_(gradient, gradient, value=1 - BETAS[1])
                deviation = square.sqrt() / (1 - BETAS[1] ** step) ** 0.5
                tensor.sub_(layer_lrs.to(tensor) * (mean / (deviation + EPSILON)))
            total += losses[:, 0]
            if step % epoch == 0:
                running, mean_loss = waited < self.patience, total.cpu() / epoch
                progress = mean_loss < (1 - self.tolerance) * lowest
                num_epochs += running
                waited = torch.where(progress & running, 0, waited + running.long())
                lowest = torch.minimum(lowest, mean_loss)
                total.zero_()
                if (waited >= self.patience).all():
                    break
        return weights, (epoch * num_epochs).tolist()
