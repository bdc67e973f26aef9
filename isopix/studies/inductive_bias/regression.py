"""Regressions over the networks of a study: loss against accuracy, encodings at equal loss, doubling of
depth.

All take groups, that is, each architecture once, as its mean over seeds: seeds of one architecture are not
independent. Groups are treated as independent with normal errors of equal variance, which so few cannot test.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.stats import t as student

from isopix.core.bootstrap import CONFIDENCE_LEVEL
from isopix.core.correlation import Correlation, pearson, spearman
from isopix.plots.study import TrialGroup

Vector = Float[np.ndarray, " n"]
Matrix = Float[np.ndarray, "n m"]
Weights = Float[np.ndarray, " m"]


class Estimate(NamedTuple):
    """A number with its 95 % interval; `groups` is the number of architectures."""

    value: float
    low: float
    high: float
    groups: int


class Agreement(NamedTuple):
    """Correlations of loss and accuracy; -1 if every lower loss has a higher accuracy."""

    pearson: Correlation
    spearman: Correlation


def loss_and_accuracy(groups: Sequence[TrialGroup]) -> Agreement | None:
    """Return the correlation of loss and best-layer accuracy.

    None for fewer than five architectures or a constant.
    """
    losses, test_accuracies = _values(groups, _loss), _values(groups, _accuracy)
    straight, ranked = pearson(losses, test_accuracies), spearman(losses, test_accuracies)
    return Agreement(straight, ranked) if straight and ranked else None


def at_fixed_loss(groups: Sequence[TrialGroup], first: str, second: str) -> Estimate | None:
    """Return the accuracy of encoding `first` minus that of `second` at equal loss (analysis of covariance).

    Least squares of accuracy = a[block] + b[encoding] + c loss with a common slope c; the contrast is
    b[first] - b[second] with Student's interval. None where the groups do not determine it or leave no
    residual.
    """
    blocks, encodings = _levels(groups, "block"), _levels(groups, "encoding")
    if not {first, second} <= set(encodings):
        return None
    own = [_indicators(groups, "block", blocks), _indicators(groups, "encoding", encodings)]
    design = np.column_stack([*own, _values(groups, _loss)])
    weights = np.zeros(design.shape[1])
    weights[len(blocks) + encodings.index(first)] += 1
    weights[len(blocks) + encodings.index(second)] -= 1
    return combination(design, _values(groups, _accuracy), weights)


def effect_of_doubling_depth(
    groups: Sequence[TrialGroup], value: Callable[[TrialGroup], float]
) -> Estimate | None:
    """Return what doubling the depth adds to `value`, the same in every block and encoding.

    Least squares of value = a[block and encoding] + c log2(depth). None without two depths of one block and
    encoding, or without a residual.
    """
    if not groups:
        return None
    architectures = list(dict.fromkeys(group[:2] for group in groups))
    own = [np.array([group[:2] == kind for group in groups], dtype=float) for kind in architectures]
    design = np.column_stack([*own, np.log2(_values(groups, lambda group: group.depth))])
    weights = np.zeros(design.shape[1])
    weights[-1] = 1
    return combination(design, _values(groups, value), weights)


def combination(design: Matrix, values: Vector, weights: Weights) -> Estimate | None:
    """Return weights . coefficients of the least-squares fit of `values` by the columns of `design`, with
    Student's 95 % interval; None where it is not determined, or without a residual.
    """
    inverse = np.linalg.pinv(design)
    freedom = len(values) - int(np.linalg.matrix_rank(design))
    if freedom < 1 or not np.allclose(weights @ inverse @ design, weights):
        return None
    fitted = inverse @ values
    variance = ((values - design @ fitted) ** 2).sum() / freedom * ((weights @ inverse) ** 2).sum()
    value, half = weights @ fitted, student.ppf((1 + CONFIDENCE_LEVEL) / 2, freedom) * np.sqrt(variance)
    return Estimate(float(value), float(value - half), float(value + half), len(values))


def _levels(groups: Sequence[TrialGroup], name: str) -> list[str]:
    return list(dict.fromkeys(getattr(group, name) for group in groups))


def _indicators(groups: Sequence[TrialGroup], name: str, levels: Sequence[str]) -> Matrix:
    return np.array([[getattr(group, name) == level for level in levels] for group in groups], dtype=float)


def _values(groups: Sequence[TrialGroup], value: Callable[[TrialGroup], float]) -> Vector:
    return np.array([value(group) for group in groups], dtype=float)


def _loss(group: TrialGroup) -> float:
    return group.loss.mean


def _accuracy(group: TrialGroup) -> float:
    return group.accuracy.mean
