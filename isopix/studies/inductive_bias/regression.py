"""Regressions over the networks of a study: loss against accuracy, encodings at equal loss, doubling of
depth.

All take groups, that is, each architecture once, as its mean over seeds: seeds of one architecture are not
independent. Groups are treated as independent with normal errors of equal variance, which so few cannot test.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import stdtrit

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
    losses, accuracies = np.array([group.loss.mean for group in groups]), _accuracies(groups)
    straight, ranked = pearson(losses, accuracies), spearman(losses, accuracies)
    return Agreement(straight, ranked) if straight and ranked else None


def at_fixed_loss(groups: Sequence[TrialGroup], first: str, second: str) -> Estimate | None:
    """Return the accuracy of encoding `first` minus that of `second` at equal loss (analysis of covariance).

    Least squares of accuracy = a[block] + b[encoding] + c loss with a common slope c; the contrast is
    b[first] - b[second] with Student's interval. None where the groups do not determine it or leave no
    residual.
    """
    blocks = list(dict.fromkeys(group.block for group in groups))
    encodings = list(dict.fromkeys(group.encoding for group in groups))
    if not {first, second} <= set(encodings):
        return None
    rows = [
        [*(group.block == each for each in blocks), *(group.encoding == each for each in encodings)]
        for group in groups
    ]
    design = np.column_stack([np.array(rows, dtype=float), [group.loss.mean for group in groups]])
    weights = np.zeros(design.shape[1])
    weights[len(blocks) + encodings.index(first)] += 1
    weights[len(blocks) + encodings.index(second)] -= 1
    return combination(design, _accuracies(groups), weights)


def effect_of_doubling_depth(
    groups: Sequence[TrialGroup], value: Callable[[TrialGroup], float]
) -> Estimate | None:
    """Return what doubling the depth adds to `value`, the same in every block and encoding.

    Least squares of value = a[block and encoding] + c log2(depth). None without two depths of one block and
    encoding, or without a residual.
    """
    if not groups:
        return None
    kinds = list(dict.fromkeys((group.block, group.encoding) for group in groups))
    rows = [[(group.block, group.encoding) == kind for kind in kinds] for group in groups]
    design = np.column_stack([np.array(rows, dtype=float), np.log2([group.depth for group in groups])])
    weights = np.zeros(design.shape[1])
    weights[-1] = 1
    return combination(design, np.array([value(group) for group in groups]), weights)


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
    value, half = weights @ fitted, stdtrit(freedom, (1 + CONFIDENCE_LEVEL) / 2) * np.sqrt(variance)
    return Estimate(float(value), float(value - half), float(value + half), len(values))


def _accuracies(groups: Sequence[TrialGroup]) -> Vector:
    return np.array([group.accuracy.mean for group in groups])
