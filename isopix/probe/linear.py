"""Penalised linear classifiers: the strength of the penalty is chosen on validation, a layer at a time."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from isopix.core.registry import register
from isopix.probe import lbfgs, logistic, ridge
from isopix.probe.base import Probabilities, ProbeMethod, Solved, Task
from isopix.probe.feature_splits import Features, Split, Standard
from isopix.probe.logistic import Fits

BUDGET = 2**31  # bytes that the layers solved together may take


class _Penalised(ProbeMethod):
    """What both have in common: they are solved in memory, by the strength of their penalty."""

    def grid(self, strengths: tuple[float, ...]) -> tuple[str, tuple[float, ...]]:
        return "strength", strengths


@register("lbfgs")
class Lbfgs(_Penalised):
    """Multinomial logistic regression by L-BFGS (iGPT section 3.4, CIFAR and STL-10)."""

    def fit(self, features: Features, targets: Tensor, strengths: Tensor, *, classes: int) -> Fits:
        return logistic.fit(features, targets, strengths, classes=classes)

    def probabilities(self, scores: Float[Tensor, "F S B K"]) -> Float[Tensor, "F S B K"]:
        return scores.softmax(-1)

    def solve(self, task: Task) -> Iterator[Solved]:
        return _solve(self, task)

    def label(self) -> str:
        return "logistic regression by L-BFGS"


@register("ridge")
class Ridge(_Penalised):
    """Least squares to one-hot targets in closed form; the scores estimate the classes' probabilities, but
    may lie outside 0..1.
    """

    def fit(self, features: Features, targets: Tensor, strengths: Tensor, *, classes: int) -> Fits:
        return ridge.fit(features, targets, strengths, classes=classes)

    def probabilities(self, scores: Float[Tensor, "F S B K"]) -> Float[Tensor, "F S B K"]:
        return scores

    def solve(self, task: Task) -> Iterator[Solved]:
        return _solve(self, task)

    def label(self) -> str:
        return "ridge regression"


def _solve(method: Lbfgs | Ridge, task: Task) -> Iterator[Solved]:
    count = len(task.splits.train.features)
    for first, end in pairwise([*range(0, count, _together(task)), count]):
        yield _Group(method, task, first, end).solve()


def _together(task: Task) -> int:
    """How many layers fit into BUDGET: features, given and twice in float64, and the weights' history."""
    _, images, width = task.splits.train.features.shape
    fits = len(task.strengths) * len(task.classes) * width
    return max(1, BUDGET // (20 * images * width + 8 * (2 * lbfgs.MEMORY + 10) * fits))


class _Group:
    """The fits and choices of the layers from `first` up to `end`."""

    def __init__(self, method: Lbfgs | Ridge, task: Task, first: int, end: int):
        self.method, self.task, self.part = method, task, task.splits.layers(first, end)

    def solve(self) -> Solved:
        task, part = self.task, self.part
        standard = self._standard(part.train)
        train, validation = self._scaled(part.train, standard), self._scaled(part.validation, standard)
        fits, accuracy = self._choose(train, validation, task.strengths)
        edge = torch.nonzero(fits.strengths[:, 0] == min(task.strengths)).flatten()
        if task.weaker and len(edge):
            self._try_weaker((train, validation), edge, fits, accuracy)
        _refuse_unconverged(fits, part.first)

        def classify(features: Features) -> Probabilities:
            return self.method.probabilities(fits.scores(standard(features)))[:, 0]

        return Solved(accuracy.cpu(), classify, _told(fits))

    def _standard(self, train: Split) -> Standard:
        return Standard.of(train.to(self.task.device), self.part.frame)

    def _scaled(self, split: Split, standard: Standard) -> Split:
        split = split.to(self.task.device)
        return replace(split, features=standard(split.features))

    def _choose(
        self, train: Split, validation: Split, strengths: tuple[float, ...]
    ) -> tuple[Fits, Float[Tensor, " F"]]:
        """Each layer's fit that is best on validation, and how good it is there."""
        # Strongest first, so that of equally good strengths the strongest is chosen.
        grid = torch.tensor(sorted(strengths, reverse=True), dtype=torch.float64)
        fits = self._fit(train, grid.expand(len(train.features), -1))
        right = self.task.right(fits.predict(validation.features), validation.labels)
        accuracy = right.double().mean(-1)
        return fits.take(accuracy.argmax(-1, keepdim=True)), accuracy.amax(-1)

    def _try_weaker(
        self,
        splits: tuple[Split, Split],
        layers: Int[Tensor, " E"],
        fits: Fits,
        accuracy: Float[Tensor, " F"],
    ) -> None:
        """Replace the fits of these layers where a weaker strength is better on validation."""
        train, validation = (replace(split, features=split.features[layers]) for split in splits)
        others, reached = self._choose(train, validation, self.task.weaker)
        better = torch.nonzero(reached > accuracy[layers]).flatten()
        fits.put(layers[better], others.rows(better))
        accuracy[layers[better]] = reached[better]

    def _fit(self, train: Split, strengths: Float[Tensor, "F S"]) -> Fits:
        task = self.task
        targets, strengths = task.targets(train.labels), strengths.to(task.device)
        return self.method.fit(train.features, targets, strengths, classes=len(task.classes))


def _told(fits: Fits) -> list[dict[str, Any]]:
    columns = {
        "strength": fits.strengths,
        "objective": fits.objectives,
        "gradient": fits.gradients,
        "steps": fits.steps,
    }
    rows = zip(*(values[:, 0].tolist() for values in columns.values()), strict=True)
    return [dict(zip(columns, row, strict=True)) for row in rows]


def _refuse_unconverged(fits: Fits, first: int) -> None:
    """No number is reported of a fit that has not converged."""
    for layer in torch.nonzero(~fits.converged[:, 0]).flatten().tolist():
        raise RuntimeError(
            f"layer {first + layer}: the fit with strength {fits.strengths[layer, 0]:.3g} did not converge; "
            f"its gradient is {fits.gradients[layer, 0]:.3g} after {fits.steps[layer, 0]} steps, "
            f"allowed: {fits.limits[layer, 0]:.3g}"
        )
