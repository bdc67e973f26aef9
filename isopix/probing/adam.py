"""Logistic regression by Adam: the linear probe of the study of inductive biases."""

from collections.abc import Iterator
from typing import Annotated

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from isopix.core.choices import Count, Range
from isopix.core.registry import register
from isopix.data.batches import ShuffledIndices, steps_per_epoch
from isopix.probing.base import FittedProbe, ProbeMethod, ProbeProblem
from isopix.probing.minibatch import BatchReader, LinearClassifiers, layer_groups
from isopix.train.optim import WarmupCosineSchedule

BETAS, EPSILON = (0.9, 0.999), 1e-7  # Keras's defaults, as in pre-training
WARMUP_EPOCHS = 1.0


@register("adam")
class AdamProbe(ProbeMethod):
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

    def label(self) -> str:
        return "logistic regression (Adam)"

    @property
    def streams(self) -> bool:
        return True

    def grid(self, l2_grid: tuple[float, ...]) -> tuple[str, tuple[float, ...]]:
        return "lr", (self.lr,)

    def fit_layers(self, problem: ProbeProblem) -> Iterator[FittedProbe]:
        floats = 4 * len(problem.classes)  # weights, gradients and both moments of a feature
        return map(self._fit, layer_groups(problem, floats))

    def _fit(self, problem: ProbeProblem) -> FittedProbe:
        train = BatchReader(problem.splits.train, problem)
        weights, num_steps = self._train(train)
        validation = BatchReader(problem.splits.validation, problem, train.standardizer)
        accuracies = weights.evaluate(validation)[1][:, 0]
        return weights.fitted(
            train, accuracies, [{"lr": self.lr, "iterations": count} for count in num_steps]
        )

    def _train(self, images: BatchReader) -> tuple[LinearClassifiers, list[int]]:
        """Return the weights of each layer, and the steps until it converged."""
        problem, size = images.problem, self.batch_size
        order = ShuffledIndices(len(images), batch_size=size, seed=problem.seed, purpose="probe.order")
        epoch = steps_per_epoch(len(images), size)
        steps = (round(WARMUP_EPOCHS) + self.epochs) * epoch
        schedule = WarmupCosineSchedule(warmup_epochs=WARMUP_EPOCHS, max_warmup_fraction=0.5)
        adam = _Adam(LinearClassifiers.zeros(problem))
        stop = _Convergence(len(problem.splits.train.features), self.tolerance, self.patience)
        total = torch.zeros(len(stop.num_epochs), device=problem.device)
        for step in range(steps):
            x, labels = images.take(order.indices(step))
            losses, gradients = adam.weights.loss_and_gradients(x, problem.class_indices(labels))
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

    def step(self, gradients: LinearClassifiers, lr: float, converged: Bool[Tensor, " F"]) -> None:
        self.num_steps += 1
        first, second = (1 - beta**self.num_steps for beta in BETAS)  # bias corrections
        rates = torch.where(converged, 0.0, lr / first)[:, None, None]
        pair = (gradients.matrix, gradients.intercepts)
        for (tensor, mean, square), gradient in zip(self._moments, pair, strict=True):
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
        self.num_epochs = [
            count + (not done) for count, done in zip(self.num_epochs, self.converged.tolist(), strict=True)
        ]
        falls = losses < (1 - self.tolerance) * self.lowest
        self.waited = torch.where(falls, 0, self.waited + 1)
        self.lowest = torch.minimum(self.lowest, losses)
        self.converged |= self.waited >= self.patience
