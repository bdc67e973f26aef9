"""Probe methods that hold features in memory: logistic and ridge regression, and k-nearest neighbors."""

import abc
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import torch
from einops import rearrange
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from isopix.core.choices import Number, PositiveNumber
from isopix.core.registry import register
from isopix.probing.logistic import HISTORY_SIZE, L2Penalties, LinearFits, decomposed_covariance, fit_logistic
from isopix.probing.probe import FittedProbe, Probabilities, ProbeMethod, ProbeProblem
from isopix.probing.splits import Features, FeatureSplit, FeatureSplits, Standardizer

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
        num_bytes = 20 * images * width + 8 * (2 * HISTORY_SIZE + 10) * weights
        return map(self._fit_together, problem.parts(MAX_BYTES // num_bytes))

    def _fit_together(self, problem: ProbeProblem) -> FittedProbe:
        splits, device = problem.splits, problem.device
        standardizer = Standardizer.fit(splits.train.features.to(device))
        train, validation = (each.to(device).map(standardizer) for each in (splits.train, splits.validation))
        targets = problem.class_indices(train.labels)

        def select(
            layers: slice | Int[Tensor, " E"], l2_grid: tuple[float, ...]
        ) -> tuple[LinearFits, Float[Tensor, " E"]]:
            # In descending order, so that of equally good penalties the largest is selected.
            grid = torch.tensor(sorted(l2_grid, reverse=True), dtype=torch.float64, device=device)
            features = train.features[layers]
            grids = grid.expand(len(features), -1)
            fits = self.fit(features, targets, grids, num_classes=len(problem.classes))
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
            f"gradient norm {fits.grad_norms[index, 0]:.3g} after {fits.iterations[index, 0]} iterations; "
            "--method ridge needs none"
        )


NEIGHBORS = "number of neighbors"  # what validation selects
TEMPERATURE = 0.07  # Wu, Xiong, Yu, Lin 2018, Unsupervised Feature Learning via Non-Parametric Instance
NUM_NEIGHBORS = 20  # Discrimination, section 3.4; they use 200, too many for some hundred images
BATCH_SIZE = 1024  # images that are compared with all training images at once


@register("knn", "k-nearest neighbors")
class KnnProbe(ProbeMethod):
    """Weighted k-NN: the nearest k vote with exp(cosine / temperature) (Wu et al. 2018, section 3.4)."""

    neighbors_grid: tuple[int, ...] = (10, 20, 50, 100, 200)
    """Numbers of neighbors k to select from."""
    temperature: PositiveNumber = TEMPERATURE
    """Temperature of the votes."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.neighbors_grid or min(self.neighbors_grid) < 1:
            raise ValueError(f"neighbors_grid {self.neighbors_grid} must be one or more positive numbers")

    def fixed(self, selected: Mapping[str, Number]) -> "KnnProbe":
        return replace(self, neighbors_grid=(int(selected[NEIGHBORS]),))

    def fit_layers(self, problem: ProbeProblem) -> Iterator[FittedProbe]:
        return map(self._fit_layer, problem.parts(1))

    def _fit_layer(self, problem: ProbeProblem) -> FittedProbe:
        splits = problem.splits.map(lambda split: split.to(problem.device))
        standardizer = Standardizer.fit(splits.train.features)
        points = F.normalize(standardizer(splits.train.features)[0], dim=-1)
        targets = problem.class_indices(splits.train.labels)

        def votes(features: Features, neighbors_grid: Sequence[int]) -> Float[Tensor, "S B C"]:
            queries = F.normalize(standardizer(features)[0], dim=-1)
            votes = queries.new_zeros(len(neighbors_grid), len(queries), len(problem.classes))
            parts = zip(torch.split(votes, BATCH_SIZE, 1), torch.split(queries, BATCH_SIZE), strict=True)
            for part, batch in parts:
                nearest = (batch @ points.T).topk(max(neighbors_grid), dim=-1)
                weights, voters = (nearest.values / self.temperature).exp(), targets[nearest.indices]
                for own, k in zip(part, neighbors_grid, strict=True):
                    own.scatter_add_(1, voters[:, :k], weights[:, :k])
            return votes / votes.sum(-1, keepdim=True)

        # In descending order, so that ties select the largest.
        grid = sorted({min(k, len(splits.train)) for k in self.neighbors_grid}, reverse=True)
        predictions = votes(splits.validation.features, grid).argmax(-1)
        accuracies = problem.is_correct(predictions, splits.validation.labels).double().mean(-1)
        best = int(accuracies.argmax())

        def predict_proba(features: Features) -> Probabilities:
            return votes(features, grid[best : best + 1])

        return FittedProbe(accuracies[best : best + 1].cpu(), predict_proba, [{NEIGHBORS: grid[best]}])


def knn_accuracy(
    train: FeatureSplit, queries: FeatureSplit, num_neighbors: int = NUM_NEIGHBORS
) -> list[float]:
    """Return the k-NN accuracy of each layer on `queries`: milliseconds for a few hundred images."""
    problem = ProbeProblem(FeatureSplits(train, queries, queries), train.features.device, seed=0)
    fits = KnnProbe(neighbors_grid=(num_neighbors,)).fit_layers(problem)
    return [fitted.val_accuracy.item() for fitted in fits]
