"""L2-penalized linear probes: logistic regression and ridge regression; validation selects the penalty."""

import abc
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
from isopix.probing.feature_splits import Features, Standardizer
from isopix.probing.logistic import L2Penalties, LinearFits

MAX_BYTES = 2**31  # memory of the layers that are fitted together


class L2PenalizedProbe(ProbeMethod):
    """A linear classifier with an L2 penalty, fitted to features in memory."""

    @abc.abstractmethod
    def fit(self, features: Features, targets: Tensor, l2: L2Penalties, *, num_classes: int) -> LinearFits:
        """Return the minimum for each layer and each of its penalties."""

    @abc.abstractmethod
    def probabilities(self, logits: Float[Tensor, "F S B K"]) -> Float[Tensor, "F S B K"]:
        """Return estimates of the probabilities of the classes."""

    def grid(self, l2_grid: tuple[float, ...]) -> tuple[str, tuple[float, ...]]:
        return "l2", l2_grid

    def fit_layers(self, problem: ProbeProblem) -> Iterator[FittedProbe]:
        count = len(problem.splits.train.features)
        for start, stop in pairwise([*range(0, count, _layers_at_once(problem)), count]):
            splits = problem.splits.select_layers(start, stop)
            yield _fit(self, replace(problem, splits=splits))


@register("lbfgs")
class LbfgsProbe(L2PenalizedProbe):
    """Multinomial logistic regression by L-BFGS (iGPT section 3.4, CIFAR and STL-10)."""

    def label(self) -> str:
        return "logistic regression (L-BFGS)"

    def fit(self, features: Features, targets: Tensor, l2: L2Penalties, *, num_classes: int) -> LinearFits:
        return logistic.fit_logistic(features, targets, l2, num_classes=num_classes)

    def probabilities(self, logits: Float[Tensor, "F S B K"]) -> Float[Tensor, "F S B K"]:
        return logits.softmax(-1)


@register("ridge")
class RidgeProbe(L2PenalizedProbe):
    """Least squares to one-hot targets in closed form; its outputs estimate the probabilities of the classes,
    but may lie outside 0..1.
    """

    def label(self) -> str:
        return "ridge regression"

    def fit(self, features: Features, targets: Tensor, l2: L2Penalties, *, num_classes: int) -> LinearFits:
        return ridge.fit_ridge(features, targets, l2, num_classes=num_classes)

    def probabilities(self, logits: Float[Tensor, "F S B K"]) -> Float[Tensor, "F S B K"]:
        return logits


def _layers_at_once(problem: ProbeProblem) -> int:
    """How many layers fit into MAX_BYTES: features as given and twice in float64, and the L-BFGS history."""
    _, images, width = problem.splits.train.features.shape
    weights = len(problem.l2_grid) * len(problem.classes) * width
    return max(1, MAX_BYTES // (20 * images * width + 8 * (2 * lbfgs.HISTORY_SIZE + 10) * weights))


def _fit(method: L2PenalizedProbe, problem: ProbeProblem) -> FittedProbe:
    """Fit the layers of a problem together."""
    splits, device = problem.splits, problem.device
    standardizer = Standardizer.fit(splits.train.to(device), splits.stored_scale)
    train, validation = (each.to(device).map(standardizer) for each in (splits.train, splits.validation))

    def select(
        layers: slice | Int[Tensor, " E"], l2_grid: tuple[float, ...]
    ) -> tuple[LinearFits, Float[Tensor, " E"]]:
        """Return the fit of highest validation accuracy of each of these layers, and the accuracies."""
        # In descending order, so that of equally good penalties the largest is selected.
        grid = torch.tensor(sorted(l2_grid, reverse=True), dtype=torch.float64, device=device)
        features, targets = train.features[layers], problem.class_indices(train.labels)
        l2 = grid.expand(len(features), -1)
        fits = method.fit(features, targets, l2, num_classes=len(problem.classes))
        predictions = fits.predict(validation.features[layers])
        accuracy = problem.is_correct(predictions, validation.labels).double().mean(-1)
        return fits.take(accuracy.argmax(-1, keepdim=True)), accuracy.amax(-1)

    fits, accuracy = select(slice(None), problem.l2_grid)
    edge = torch.nonzero(fits.l2[:, 0] == min(problem.l2_grid)).flatten()
    if problem.l2_extra and len(edge):
        others, reached = select(edge, problem.l2_extra)
        better = torch.nonzero(reached > accuracy[edge]).flatten()
        fits.assign(edge[better], others.select(better))
        accuracy[edge[better]] = reached[better]
    _check_convergence(fits, splits.first_layer)

    def predict_proba(features: Features) -> Probabilities:
        return method.probabilities(fits.logits(standardizer(features)))[:, 0]

    return FittedProbe(accuracy.cpu(), predict_proba, _diagnostics(fits))


def _diagnostics(fits: LinearFits) -> list[dict[str, Any]]:
    names = ("l2", "objective", "grad_norm", "iterations")
    columns = (fits.l2, fits.objectives, fits.grad_norms, fits.iterations)
    rows = zip(*(values[:, 0].tolist() for values in columns), strict=True)
    return [dict(zip(names, row, strict=True)) for row in rows]


def _check_convergence(fits: LinearFits, first_layer: int) -> None:
    """Raise RuntimeError for a fit that has not converged; its numbers must not be reported."""
    for index in torch.nonzero(~fits.converged[:, 0]).flatten().tolist():
        raise RuntimeError(
            f"layer {first_layer + index}: the fit with L2 penalty {fits.l2[index, 0]:.3g} did not converge: "
            f"gradient norm {fits.grad_norms[index, 0]:.3g} after {fits.iterations[index, 0]} iterations, "
            f"allowed: {fits.max_grad_norms[index, 0]:.3g}"
        )
