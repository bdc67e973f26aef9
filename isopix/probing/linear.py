"""L2-penalized linear probes: logistic regression and ridge regression; validation selects the penalty."""

import abc
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import torch
from einops import rearrange
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from isopix.core.choices import Number
from isopix.core.registry import register
from isopix.probing import lbfgs
from isopix.probing.base import FittedProbe, Probabilities, ProbeMethod, ProbeProblem
from isopix.probing.logistic import L2Penalties, LinearFits, decomposed_covariance, fit_logistic
from isopix.probing.splits import Features, Standardizer

L2_PENALTY = "L2 penalty"  # what validation selects
# Half decades. Standardized features and a penalty on the mean loss make one grid serve every network and
# number of images: at 10 the weights all but vanish, at 1e-8 they are free. The six values of L2_EXTRA take
# most of the time, and only networks with weakly informative features need them.
L2_GRID = tuple(float(f"{10 ** (power / 2):.3g}") for power in range(-10, 3))
L2_EXTRA = tuple(float(f"{10 ** (power / 2):.3g}") for power in range(-16, -10))
MAX_BYTES = 2**31  # memory of the layers that are fitted together


class L2PenalizedProbe(ProbeMethod):
    """A linear classifier with an L2 penalty, fitted to features in memory."""

    l2_grid: tuple[float, ...] = L2_GRID
    """L2 penalties to select from; six more are tried where the smallest of the default is selected."""

    def __post_init__(self) -> None:
        if not self.l2_grid or not all(0 < l2 < float("inf") for l2 in self.l2_grid):
            raise ValueError(f"l2_grid {self.l2_grid} must be one or more positive numbers")

    @property
    def l2_extra(self) -> tuple[float, ...]:
        """The penalties to try where the smallest of `l2_grid` is selected."""
        return L2_EXTRA if self.l2_grid == L2_GRID else ()

    @abc.abstractmethod
    def fit(self, features: Features, targets: Tensor, l2: L2Penalties, *, num_classes: int) -> LinearFits:
        """Return the minimum for each layer and each of its penalties, in float64 on the features' device."""

    def probabilities(self, logits: Float[Tensor, "F S B K"]) -> Float[Tensor, "F S B K"]:
        return logits.softmax(-1)

    def grid(self) -> Mapping[str, Sequence[Number]]:
        return {L2_PENALTY: (*self.l2_grid, *self.l2_extra)}

    def fixed(self, selected: Mapping[str, Number]) -> "L2PenalizedProbe":
        return replace(self, l2_grid=(selected[L2_PENALTY],))

    def fit_layers(self, problem: ProbeProblem) -> Iterator[FittedProbe]:
        """Fit as many layers together as fit into MAX_BYTES with the L-BFGS history."""
        _, images, width = problem.splits.train.features.shape
        weights = len(self.l2_grid) * len(problem.classes) * width
        num_bytes = 20 * images * width + 8 * (2 * lbfgs.HISTORY_SIZE + 10) * weights
        return map(self._fit_together, problem.parts(MAX_BYTES // num_bytes))

    def _fit_together(self, problem: ProbeProblem) -> FittedProbe:
        splits, device = problem.splits, problem.device
        standardizer = Standardizer.fit(splits.train.to(device), splits.stored_scale)
        train, validation = (each.to(device).map(standardizer) for each in (splits.train, splits.validation))
        targets = problem.class_indices(train.labels)

        def select(
            layers: slice | Int[Tensor, " E"], l2_grid: tuple[float, ...]
        ) -> tuple[LinearFits, Float[Tensor, " E"]]:
            # In descending order, so that of equally good penalties the largest is selected.
            grid = torch.tensor(sorted(l2_grid, reverse=True), dtype=torch.float64, device=device)
            features = train.features[layers]
            fits = self.fit(
                features, targets, grid.expand(len(features), -1), num_classes=len(problem.classes)
            )
            predictions = fits.predict(validation.features[layers])
            accuracy = problem.is_correct(predictions, validation.labels).double().mean(-1)
            return fits.take(accuracy.argmax(-1, keepdim=True)), accuracy.amax(-1)

        fits, accuracy = select(slice(None), self.l2_grid)
        edge = torch.nonzero(fits.l2[:, 0] == min(self.l2_grid)).flatten()
        if self.l2_extra and len(edge):
            others, reached = select(edge, self.l2_extra)
            better = torch.nonzero(reached > accuracy[edge]).flatten()
            for mine, theirs in zip((accuracy, *fits), (reached, *others), strict=True):
                mine[edge[better]] = theirs[better]
        _check_convergence(fits, splits.first_layer)

        def predict_proba(features: Features) -> Probabilities:
            return self.probabilities(fits.logits(standardizer(features)))[:, 0]

        names = ("objective", "grad_norm", "iterations")
        numbers = (each[:, 0].tolist() for each in (fits.objectives, fits.grad_norms, fits.iterations))
        return FittedProbe(
            accuracy.cpu(),
            predict_proba,
            selected=[{L2_PENALTY: l2} for l2 in fits.l2[:, 0].tolist()],
            fit=[dict(zip(names, row, strict=True)) for row in zip(*numbers, strict=True)],
        )


@register("lbfgs", "logistic regression (L-BFGS)")
class LbfgsProbe(L2PenalizedProbe):
    """Multinomial logistic regression by L-BFGS (iGPT section 3.4, CIFAR and STL-10)."""

    def fit(self, features: Features, targets: Tensor, l2: L2Penalties, *, num_classes: int) -> LinearFits:
        return fit_logistic(features, targets, l2, num_classes=num_classes)


@register("ridge", "ridge regression")
class RidgeProbe(L2PenalizedProbe):
    """Least squares to one-hot targets in closed form; outputs as probabilities may lie outside 0..1."""

    def probabilities(self, logits: Float[Tensor, "F S B K"]) -> Float[Tensor, "F S B K"]:
        return logits

    def fit(self, features: Features, targets: Tensor, l2: L2Penalties, *, num_classes: int) -> LinearFits:
        """Minimize the mean over images of |W x + b - onehot(label)|^2 + l2 |W|^2; b is not penalized.

        scikit-learn's `Ridge` minimizes N times this, with alpha = l2 N. With X centered and X'X / N = V
        diag(s) V', the weights are those of the targets along V, shrunk by 1 / (s + l2).
        """
        l2 = l2.to(features.device, torch.float64)
        count, exact = features.shape[1], features.double()
        center = exact.mean(1)
        centered = exact - center[:, None]
        onehot = F.one_hot(targets.to(features.device), num_classes).double()
        frequencies = onehot.mean(0)
        covariance, variances, axes = decomposed_covariance(centered)
        correlation = centered.mT @ (onehot - frequencies) / count  # [F D K]
        shrink = 1 / (rearrange(variances, "f a -> f 1 a 1") + rearrange(l2, "f s -> f s 1 1"))
        columns = axes[:, None] @ (shrink * (axes.mT @ correlation)[:, None])  # [F S D K]
        penalties = rearrange(l2, "f s -> f s 1 1") * columns
        if covariance is None:
            product = centered.mT[:, None] @ (centered[:, None] @ columns) / count
        else:
            product = covariance[:, None] @ columns
        half_gradient = product + penalties - correlation[:, None]
        # |X W|^2 / N is the trace of W' cov W, so that no residual needs to be formed.
        explained = (columns * (product - 2 * correlation[:, None])).sum((-1, -2))
        total = (onehot - frequencies).square().sum() / count
        return LinearFits(
            weights=columns.mT.contiguous(),
            intercepts=frequencies - torch.einsum("fsdk,fd->fsk", columns, center),
            l2=l2,
            objectives=total + explained + (penalties * columns).sum((-1, -2)),
            grad_norms=2 * half_gradient.flatten(2).norm(dim=-1),
            iterations=torch.ones_like(l2, dtype=torch.long),
            converged=columns.isfinite().flatten(2).all(-1),
        )


def _check_convergence(fits: LinearFits, first_layer: int) -> None:
    for index in torch.nonzero(~fits.converged[:, 0]).flatten().tolist():
        raise RuntimeError(
            f"layer {first_layer + index}: the fit with L2 penalty {fits.l2[index, 0]:.3g} did not converge: "
            f"gradient norm {fits.grad_norms[index, 0]:.3g} after {fits.iterations[index, 0]} iterations"
        )
