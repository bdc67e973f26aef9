"""Logistic regression by stochastic gradient descent, for more features than L-BFGS can hold in memory.

All layers and learning rates are trained at once, on one batch of features at a time.
"""

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import torch
from einops import repeat
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from isopix.core.registry import register
from isopix.data.batches import ShuffledIndices
from isopix.probing.base import FittedProbe, ProbeMethod, ProbeProblem
from isopix.probing.minibatch import BatchReader, LinearClassifiers, layer_groups

LR_GRID = (30.0, 10.0, 3.0, 1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001, 0.0003, 0.0001)


@register("sgd")
class SgdProbe(ProbeMethod):
    """Logistic regression by SGD with momentum and cosine decay to zero; learning rates are tried in
    descending order until the final validation loss rises (iGPT section 3.4, ImageNet; a million iterations
    there).

    Batch size and weight decay are not stated; 256 and none are inferred from MoCo (He et al. 2019), whose
    protocol the section follows. Every learning rate starts from zero weights and sees the same batches.
    """

    iterations: int = 3000
    """Updates of the weights."""
    batch_size: int = 256
    """Images of an update."""
    momentum: float = 0.9
    """Momentum."""
    lr_grid: tuple[float, ...] = LR_GRID
    """Learning rates to try, in this order."""

    def label(self) -> str:
        return "logistic regression (SGD)"

    def __post_init__(self) -> None:
        for name in ("iterations", "batch_size"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} {getattr(self, name)} must be at least 1")
        if not 0 <= self.momentum < 1:
            raise ValueError(f"momentum {self.momentum} must be at least 0 and below 1")
        descending = all(before > after for before, after in pairwise(self.lr_grid))
        if not self.lr_grid or not descending or not self.lr_grid[-1] > 0 or math.isinf(self.lr_grid[0]):
            raise ValueError(
                f"lr_grid {self.lr_grid} must be one or more positive numbers in descending order"
            )

    @property
    def streams(self) -> bool:
        return True

    def grid(self, l2_grid: tuple[float, ...]) -> tuple[str, tuple[float, ...]]:
        return "lr", self.lr_grid

    def fix(self, setting: int | float) -> "SgdProbe":
        return replace(self, lr_grid=(setting,))

    def fit_layers(self, problem: ProbeProblem) -> Iterator[FittedProbe]:
        floats = 2 * len(self.lr_grid) * len(problem.classes)  # weights and velocities of a feature
        return map(self._fit, layer_groups(problem, floats))

    def _fit(self, problem: ProbeProblem) -> FittedProbe:
        train = BatchReader(problem.splits.train, problem)
        lr = torch.tensor(self.lr_grid, dtype=torch.float64)
        weights = self._train(train, lr.expand(len(problem.splits.train.features), -1))
        validation = BatchReader(problem.splits.validation, problem, train.standardizer)
        losses, accuracies = weights.evaluate(validation)
        selected = last_before_rise(losses)
        diagnostics = [{"lr": each, "iterations": self.iterations} for each in lr[selected].tolist()]
        accuracy = accuracies.gather(1, selected[:, None])[:, 0]
        return weights.take(selected).fitted(train, accuracy, diagnostics)

    def _train(self, images: BatchReader, peak_lr: Float[Tensor, "F R"]) -> LinearClassifiers:
        """Return the weights of each layer at each peak learning rate, after all iterations."""
        problem = images.problem
        weights, velocity = (LinearClassifiers.zeros(problem, len(self.lr_grid)) for _ in range(2))
        order = ShuffledIndices(
            len(images), batch_size=self.batch_size, seed=problem.seed, purpose="probe.order"
        )
        columns = repeat(peak_lr, "f r -> f 1 (r k)", k=len(problem.classes))
        columns = columns.to(problem.device, torch.float32)
        for step in range(self.iterations):
            x, labels = images.take(order.indices(step))
            _, gradients = weights.loss_and_gradients(x, problem.class_indices(labels))
            lr = columns * (0.5 + 0.5 * math.cos(math.pi * step / self.iterations))
            velocity.matrix.mul_(self.momentum).add_(gradients.matrix)
            velocity.intercepts.mul_(self.momentum).add_(gradients.intercepts)
            weights.matrix.sub_(lr * velocity.matrix)
            weights.intercepts.sub_(lr * velocity.intercepts)
        return weights


def last_before_rise(losses: Float[Tensor, "F R"]) -> Int[Tensor, " F"]:
    """Return for each layer the index of the last learning rate before its final validation loss rises.

    Learning rates descend from left to right.
    """
    finite = losses.nan_to_num(torch.inf, posinf=torch.inf)
    rises = F.pad(finite[:, 1:] > finite[:, :-1], (0, 1), value=True)
    return rises.long().argmax(1)  # the first of equals
