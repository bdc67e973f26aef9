"""Logistic regression by stochastic gradient descent, for features too many for L-BFGS.

Memory holds the features as they are given, which may be 16 bits a number on a disk, and one batch: all
layers and rates learn from it at once.
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
from isopix.probe.base import Probabilities, ProbeMethod, Solved, Task
from isopix.probe.feature_splits import Features, Split, Standard

RATES = (30.0, 10.0, 3.0, 1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001, 0.0003, 0.0001)
BUDGET = 2**31  # bytes that the layers trained together may take beside their features


@register("sgd")
class Sgd(ProbeMethod):
    """Momentum 0.9, half a cosine to zero, and rates 30, 10, 3, ... descending until the final validation
    loss rises (iGPT section 3.4, ImageNet; a million iterations there).

    Batch and weight decay are not stated; 256 and none are inferred from MoCo (He et al. 2019), whose
    protocol the section follows. Every rate starts from zero weights and sees the same batches.
    """

    iterations: int = 3000
    batch: int = 256
    momentum: float = 0.9
    rates: tuple[float, ...] = RATES

    def __post_init__(self) -> None:
        if self.iterations < 1 or self.batch < 1:
            raise ValueError(f"iterations {self.iterations} and batch {self.batch} must both be at least 1")
        if not 0 <= self.momentum < 1:
            raise ValueError(f"momentum {self.momentum} must be at least 0 and below 1")
        falling = all(before > after for before, after in pairwise(self.rates))
        if not self.rates or not falling or not self.rates[-1] > 0 or math.isinf(self.rates[0]):
            raise ValueError(f"rates {self.rates} must be one or more positive numbers, each below the last")

    @property
    def stored(self) -> bool:
        return True

    def grid(self, strengths: tuple[float, ...]) -> tuple[str, tuple[float, ...]]:
        return "rate", self.rates

    def only(self, setting: int | float) -> "Sgd":
        return replace(self, rates=(setting,))

    def solve(self, task: Task) -> Iterator[Solved]:
        count, _, width = task.splits.train.features.shape
        each = 2 * 4 * len(self.rates) * len(task.classes) * width  # bytes of weights and their speed
        for first, end in pairwise([*range(0, count, max(1, BUDGET // each)), count]):
            yield self._solve(replace(task, splits=task.splits.layers(first, end)))

    def _solve(self, task: Task) -> Solved:
        train = _Rows(task.splits.train, task)
        rates = torch.tensor(self.rates, dtype=torch.float64)
        every = self._train(train, rates.expand(len(task.splits.train.features), -1))
        nats, accuracies = every.grade(_Rows(task.splits.validation, task, train.standard))
        chosen = descend(nats)
        weights, accuracy = every.take(chosen), accuracies.gather(1, chosen[:, None])[:, 0]
        told: list[dict[str, Any]] = [
            {"rate": rate, "objective": objective, "steps": self.iterations}
            for rate, objective in zip(
                rates[chosen].tolist(), weights.grade(train)[0][:, 0].tolist(), strict=True
            )
        ]

        def classify(features: Features) -> Probabilities:
            return weights.scores(train.standard(features))[:, :, 0].softmax(-1)

        return Solved(accuracy, classify, told)

    def _train(self, rows: "_Rows", rates: Float[Tensor, "F R"]) -> "_Weights":
        """The weights of each layer at each peak rate, after all iterations."""
        task, width = rows.task, rows.split.features.shape[2]
        shape = (*rates.shape, len(task.classes))
        weights, speed = (_Weights.zero(shape, width, task.device) for _ in range(2))
        order = ShuffledIndices(len(rows), batch_size=self.batch, seed=task.seed, purpose="probe.order")
        peaks = repeat(rates, "f r -> f 1 (r k)", k=shape[2]).to(task.device, torch.float32)
        for step in range(self.iterations):
            x, labels = rows.take(order.indices(step))
            errors = weights.scores(x).softmax(-1)
            errors[:, torch.arange(len(labels)), :, task.targets(labels)] -= 1
            flat = rearrange(errors / len(labels), "f b r k -> f b (r k)")
            rate = peaks * (0.5 + 0.5 * math.cos(math.pi * step / self.iterations))
            speed.matrix.mul_(self.momentum).add_(x.mT @ flat)
            speed.intercepts.mul_(self.momentum).add_(flat.sum(1, keepdim=True))
            weights.matrix.sub_(rate * speed.matrix)
            weights.intercepts.sub_(rate * speed.intercepts)
        return weights

    def label(self) -> str:
        return "logistic regression by SGD"


def descend(nats: Float[Tensor, "F R"]) -> Int[Tensor, " F"]:
    """The last rate of each layer before its final validation loss rises; rates fall from left to right."""
    finite = nats.nan_to_num(torch.inf, posinf=torch.inf)
    rises = F.pad(finite[:, 1:] > finite[:, :-1], (0, 1), value=True)
    return rises.long().argmax(1)  # the first of equals


@dataclass(frozen=True)
class _Weights:
    """A linear classifier for each layer and rate; those of a layer stand side by side in C columns."""

    matrix: Float[Tensor, "F D C"]
    intercepts: Float[Tensor, "F 1 C"]
    rates: int

    @staticmethod
    def zero(shape: tuple[int, int, int], width: int, device: torch.device) -> "_Weights":
        layers, rates, classes = shape
        matrix, intercepts = (
            torch.zeros(layers, rows, rates * classes, device=device) for rows in (width, 1)
        )
        return _Weights(matrix, intercepts, rates)

    def scores(self, x: Features) -> Float[Tensor, "F B R K"]:
        scores = torch.baddbmm(self.intercepts, x, self.matrix)
        return rearrange(scores, "f b (r k) -> f b r k", r=self.rates)

    def take(self, chosen: Int[Tensor, " F"]) -> "_Weights":
        """Those of one rate of each layer."""
        layers, pair = torch.arange(len(chosen)), (self.matrix, self.intercepts)
        apart = (rearrange(each, "f d (r k) -> f r d k", r=self.rates) for each in pair)
        matrix, intercepts = (each[layers, chosen.to(each.device)] for each in apart)
        return _Weights(matrix, intercepts, 1)

    def grade(self, rows: "_Rows") -> tuple[Float[Tensor, "F R"], Float[Tensor, "F R"]]:
        """Mean nats an image, and accuracy, on the CPU."""
        nats, right = torch.zeros(2, len(self.matrix), self.rates, dtype=torch.float64)
        for x, labels in rows.blocks():
            scores, targets = self.scores(x), rows.task.targets(labels)
            losses = -scores.log_softmax(-1)[:, torch.arange(len(labels)), :, targets]  # [B F R]
            known = rows.task.right(targets, labels)  # a class that train never shows has no loss
            nats += (losses * known[:, None, None]).double().sum(0).cpu()
            answers = rearrange(scores.argmax(-1), "f b r -> f r b")
            right += rows.task.right(answers, labels).sum(-1).cpu()
        return nats / len(rows), right / len(rows)


class _Rows:
    """Images of a split, a batch of them at a time on the task's device, standardised."""

    def __init__(self, split: Split, task: Task, standard: Standard | None = None):
        self.split, self.task = split, task
        self.standard = standard or Standard.of(split, task.splits.frame).to(task.device)

    def __len__(self) -> int:
        return len(self.split)

    def take(self, numbers: Int[Tensor, " B"]) -> tuple[Features, Labels]:
        """The images of these numbers."""
        return self._ready(self.split.features[:, numbers], self.split.labels[numbers])

    def blocks(self) -> Iterator[tuple[Features, Labels]]:
        """All of them, in turn."""
        return (self._ready(block.features, block.labels) for block in self.split.blocks())

    def _ready(self, features: Features, labels: Labels) -> tuple[Features, Labels]:
        return self.standard(features.to(self.task.device)), labels
