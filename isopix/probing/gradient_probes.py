"""The probes by stochastic gradients: SGD, as for ImageNet, and Adam, of the study of inductive biases."""

import math
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Annotated

import torch
from einops import repeat
from jaxtyping import Bool, Float
from torch import Tensor

from isopix.core.choices import Count, Number, Range, check_ranges
from isopix.core.registry import register
from isopix.data.batches import steps_per_epoch
from isopix.probing.minibatch import LEARNING_RATE, BatchReader, LinearClassifiers, MinibatchProbe
from isopix.train.optim import WarmupCosineSchedule

LR_GRID = (30.0, 10.0, 3.0, 1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001, 0.0003, 0.0001)
BETAS, EPSILON = (0.9, 0.999), 1e-7  # Keras's defaults, as in pre-training
WARMUP_EPOCHS = 1.0


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
        total = torch.zeros(len(stop.lowest), device=problem.device)
        for step, batch in enumerate(images.shuffled(self.batch_size, steps)):
            losses, gradients = adam.weights.loss_and_gradients(*batch)
            adam.step(gradients, self.lr * schedule.factor(step, steps=steps, epoch=epoch), stop.converged)
            total += losses[:, 0]
            if (step + 1) % epoch == 0:
                stop.update(total.cpu() / epoch)
                total.zero_()
                if stop.converged.all():
                    break
        return adam.weights, (epoch * stop.num_epochs).tolist()


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
        self.waited, self.num_epochs = torch.zeros(2, num_layers, dtype=torch.long)

    @property
    def converged(self) -> Bool[Tensor, " F"]:
        return self.waited >= self.patience

    def update(self, losses: Float[Tensor, " F"]) -> None:
        """Take the losses of the next epoch."""
        running, falls = ~self.converged, losses < (1 - self.tolerance) * self.lowest
        self.num_epochs = self.num_epochs + running
        self.waited = torch.where(falls & running, 0, self.waited + running.long())
        self.lowest = torch.minimum(self.lowest, losses)
