"""Logistic regression by stochastic gradient descent, for more features than L-BFGS can hold in memory.

Features may lie in 16 bits on disk, mapped into memory: only one batch of them is converted at a time, and
all layers and learning rates are trained on it at once.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import torch
from einops import rearrange, repeat
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from isopix.core.registry import register
from isopix.core.types import Labels
from isopix.data.batches import ShuffledIndices
from isopix.probing.base import FittedProbe, Probabilities, ProbeMethod, ProbeProblem
from isopix.probing.feature_splits import Features, FeatureSplit, Standardizer

LR_GRID = (30.0, 10.0, 3.0, 1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001, 0.0003, 0.0001)
MAX_BYTES = 2**31  # memory of the weights of the layers that are trained together


@register("sgd")
class SgdProbe(ProbeMethod):
    """Logistic regression by SGD with momentum and cosine decay to zero; learning rates are tried in
    descending order until the final validation loss rises (iGPT section 3.4, ImageNet; a million iterations
    there).

    Batch size and weight decay are not stated; 256 and none are inferred from MoCo (He et al. 2019), whose
    protocol the section follows. Every learning rate starts from zero weights and sees the same batches.
    """

    iterations: int = 3000
    batch_size: int = 256
    momentum: float = 0.9
    lr_grid: tuple[float, ...] = LR_GRID

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
        count, _, width = problem.splits.train.features.shape
        per_layer = 2 * 4 * len(self.lr_grid) * len(problem.classes) * width  # bytes of weights, velocities
        for start, stop in pairwise([*range(0, count, max(1, MAX_BYTES // per_layer)), count]):
            yield self._fit(replace(problem, splits=problem.splits.select_layers(start, stop)))

    def _fit(self, problem: ProbeProblem) -> FittedProbe:
        train = _Images(problem.splits.train, problem)
        lr = torch.tensor(self.lr_grid, dtype=torch.float64)
        weights = self._train(train, lr.expand(len(problem.splits.train.features), -1))
        losses, accuracies = weights.evaluate(_Images(problem.splits.validation, problem, train.standardizer))
        selected = last_before_rise(losses)
        best, accuracy = weights.take(selected), accuracies.gather(1, selected[:, None])[:, 0]
        pairs = zip(lr[selected].tolist(), best.evaluate(train)[0][:, 0].tolist(), strict=True)
        diagnostics: list[dict[str, Any]] = [
            {"lr": lr, "objective": loss, "iterations": self.iterations} for lr, loss in pairs
        ]

        def predict_proba(features: Features) -> Probabilities:
            return best.logits(train.standardizer(features))[:, :, 0].softmax(-1)

        return FittedProbe(accuracy, predict_proba, diagnostics)

    def _train(self, images: "_Images", peak_lr: Float[Tensor, "F R"]) -> "_Weights":
        """Return the weights of each layer at each peak learning rate, after all iterations."""
        problem, width = images.problem, images.split.features.shape[2]
        shape = (*peak_lr.shape, len(problem.classes))
        weights, velocity = (_Weights.zeros(shape, width, problem.device) for _ in range(2))
        order = ShuffledIndices(
            len(images), batch_size=self.batch_size, seed=problem.seed, purpose="probe.order"
        )
        columns = repeat(peak_lr, "f r -> f 1 (r k)", k=shape[2]).to(problem.device, torch.float32)
        for step in range(self.iterations):
            x, labels = images.take(order.indices(step))
            errors = weights.logits(x).softmax(-1)
            errors[:, torch.arange(len(labels)), :, problem.class_indices(labels)] -= 1
            flat = rearrange(errors / len(labels), "f b r k -> f b (r k)")
            lr = columns * (0.5 + 0.5 * math.cos(math.pi * step / self.iterations))
            velocity.matrix.mul_(self.momentum).add_(x.mT @ flat)
            velocity.intercepts.mul_(self.momentum).add_(flat.sum(1, keepdim=True))
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


@dataclass(frozen=True)
class _Weights:
    """A linear classifier for each layer and learning rate; those of one layer in C columns."""

    matrix: Float[Tensor, "F D C"]
    intercepts: Float[Tensor, "F 1 C"]
    num_rates: int

    @staticmethod
    def zeros(shape: tuple[int, int, int], width: int, device: torch.device) -> "_Weights":
        layers, num_rates, num_classes = shape
        matrix, intercepts = (
            torch.zeros(layers, rows, num_rates * num_classes, device=device) for rows in (width, 1)
        )
        return _Weights(matrix, intercepts, num_rates)

    def logits(self, x: Features) -> Float[Tensor, "F B R K"]:
        logits = torch.baddbmm(self.intercepts, x, self.matrix)
        return rearrange(logits, "f b (r k) -> f b r k", r=self.num_rates)

    def take(self, selected: Int[Tensor, " F"]) -> "_Weights":
        """Return those of one learning rate per layer."""
        layers, pair = torch.arange(len(selected)), (self.matrix, self.intercepts)
        apart = (rearrange(each, "f d (r k) -> f r d k", r=self.num_rates) for each in pair)
        matrix, intercepts = (each[layers, selected.to(each.device)] for each in apart)
        return _Weights(matrix, intercepts, 1)

    def evaluate(self, images: "_Images") -> tuple[Float[Tensor, "F R"], Float[Tensor, "F R"]]:
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


class _Images:
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
