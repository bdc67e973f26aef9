"""L2-penalized linear probes: logistic regression and ridge regression; validation selects the penalty."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from isopix.core.registry import register
from isopix.probing import lbfgs, logistic, ridge
from isopix.probing.base import FittedProbe, Probabilities, ProbeMethod, ProbeProblem
from isopix.probing.feature_splits import Features, FeatureSplit, Standardizer
from isopix.probing.logistic import LinearFits

MAX_BYTES = 2**31  # memory of the layers that are fitted together


class _L2Penalized(ProbeMethod):
    """What both methods share: features in memory, and a grid of L2 penalties."""

    def grid(self, l2_grid: tuple[float, ...]) -> tuple[str, tuple[float, ...]]:
        return "l2", l2_grid


@register("lbfgs")
class LbfgsProbe(_L2Penalized):
    """Multinomial logistic regression by L-BFGS (iGPT section 3.4, CIFAR and STL-10)."""

    def label(self) -> str:
        return "logistic regression (L-BFGS)"

    def fit(self, features: Features, targets: Tensor, l2: Tensor, *, num_classes: int) -> LinearFits:
        return logistic.fit_logistic(features, targets, l2, num_classes=num_classes)

    def probabilities(self, logits: Float[Tensor, "F S B K"]) -> Float[Tensor, "F S B K"]:
        return logits.softmax(-1)

    def fit_layers(self, problem: ProbeProblem) -> Iterator[FittedProbe]:
        return _fit_layers(self, problem)


@register("ridge")
class RidgeProbe(_L2Penalized):
    """Least squares to one-hot targets in closed form; its outputs estimate the probabilities of the classes,
    but may lie outside 0..1.
    """

    def label(self) -> str:
        return "ridge regression"

    def fit(self, features: Features, targets: Tensor, l2: Tensor, *, num_classes: int) -> LinearFits:
        return ridge.fit_ridge(features, targets, l2, num_classes=num_classes)

    def probabilities(self, logits: Float[Tensor, "F S B K"]) -> Float[Tensor, "F S B K"]:
        return logits

    def fit_layers(self, problem: ProbeProblem) -> Iterator[FittedProbe]:
        return _fit_layers(self, problem)


def _fit_layers(method: LbfgsProbe | RidgeProbe, problem: ProbeProblem) -> Iterator[FittedProbe]:
    count = len(problem.splits.train.features)
    for start, stop in pairwise([*range(0, count, _layers_at_once(problem)), count]):
        yield _LayerGroup(method, problem, start, stop).fit()


def _layers_at_once(problem: ProbeProblem) -> int:
    """How many layers fit into MAX_BYTES: features as given and twice in float64, and the L-BFGS history."""
    _, images, width = problem.splits.train.features.shape
    weights = len(problem.l2_grid) * len(problem.classes) * width
    return max(1, MAX_BYTES // (20 * images * width + 8 * (2 * lbfgs.HISTORY_SIZE + 10) * weights))


class _LayerGroup:
    """The layers from `start` up to `stop`, fitted together."""

    def __init__(self, method: LbfgsProbe | RidgeProbe, problem: ProbeProblem, start: int, stop: int):
        self.method, self.problem = method, problem
        self.splits = problem.splits.select_layers(start, stop)

    def fit(self) -> FittedProbe:
        problem, splits = self.problem, self.splits
        standardizer = Standardizer.fit(splits.train.to(problem.device), splits.stored_scale)
        train = self._standardized(splits.train, standardizer)
        validation = self._standardized(splits.validation, standardizer)
        fits, accuracy = self._select(train, validation, problem.l2_grid)
        edge = torch.nonzero(fits.l2[:, 0] == min(problem.l2_grid)).flatten()
        if problem.l2_extra and len(edge):
            self._try_extra((train, validation), edge, fits, accuracy)
        _check_convergence(fits, splits.first_layer)

        def predict_proba(features: Features) -> Probabilities:
            return self.method.probabilities(fits.logits(standardizer(features)))[:, 0]

        return FittedProbe(accuracy.cpu(), predict_proba, _diagnostics(fits))

    def _standardized(self, split: FeatureSplit, standardizer: Standardizer) -> FeatureSplit:
        split = split.to(self.problem.device)
        return replace(split, features=standardizer(split.features))

    def _select(
        self, train: FeatureSplit, validation: FeatureSplit, l2_grid: tuple[float, ...]
    ) -> tuple[LinearFits, Float[Tensor, " F"]]:
        """Return each layer's fit of the highest validation accuracy, and that accuracy."""
        # In descending order, so that of equally good penalties the largest is selected.
        grid = torch.tensor(sorted(l2_grid, reverse=True), dtype=torch.float64)
        fits = self._fit(train, grid.expand(len(train.features), -1))
        correct = self.problem.is_correct(fits.predict(validation.features), validation.labels)
        accuracy = correct.double().mean(-1)
        return fits.take(accuracy.argmax(-1, keepdim=True)), accuracy.amax(-1)

    def _try_extra(
        self,
        splits: tuple[FeatureSplit, FeatureSplit],
        layers: Int[Tensor, " E"],
        fits: LinearFits,
        accuracy: Float[Tensor, " F"],
    ) -> None:
        """Replace the fits of these layers where a penalty of `l2_extra` is better on validation."""
        train, validation = (replace(split, features=split.features[layers]) for split in splits)
        others, reached = self._select(train, validation, self.problem.l2_extra)
        better = torch.nonzero(reached > accuracy[layers]).flatten()
        fits.assign(layers[better], others.select(better))
        accuracy[layers[better]] = reached[better]

    def _fit(self, train: FeatureSplit, l2: Float[Tensor, "F S"]) -> LinearFits:
        problem = self.problem
        targets, l2 = problem.class_indices(train.labels), l2.to(problem.device)
        return self.method.fit(train.features, targets, l2, num_classes=len(problem.classes))


def _diagnostics(fits: LinearFits) -> list[dict[str, Any]]:
    columns = {
        "l2": fits.l2,
        "objective": fits.objectives,
        "grad_norm": fits.grad_norms,
        "iterations": fits.iterations,
    }
    rows = zip(*(values[:, 0].tolist() for values in columns.values()), strict=True)
    return [dict(zip(columns, row, strict=True)) for row in rows]


def _check_convergence(fits: LinearFits, first_layer: int) -> None:
    """Raise RuntimeError for a fit that has not converged; its numbers must not be reported."""
    for index in torch.nonzero(~fits.converged[:, 0]).flatten().tolist():
        raise RuntimeError(
            f"layer {first_layer + index}: the fit with L2 penalty {fits.l2[index, 0]:.3g} did not converge: "
            f"gradient norm {fits.grad_norms[index, 0]:.3g} after {fits.iterations[index, 0]} iterations, "
            f"allowed: {fits.max_grad_norms[index, 0]:.3g}"
        )
