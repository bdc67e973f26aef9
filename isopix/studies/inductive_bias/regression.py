"""Contrasts between networks of a study: does loss tell accuracy, what is an encoding worth at equal loss,
what is a doubling of depth worth, which of two is better layer by layer.

All take groups, that is, each kind of network once, as its mean over seeds: seeds of one kind are no
independent witnesses of a difference between kinds. The groups themselves are taken for independent, with
normal errors of one size, which so few can not be tested for; the intervals are as good as that.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.stats import t as student

from isopix.core.bootstrap import CONFIDENCE_LEVEL
from isopix.core.correlation import Correlation, pearson, spearman
from isopix.studies.inductive_bias.trials import Group

Vector = Float[np.ndarray, " n"]
Matrix = Float[np.ndarray, "n m"]
Weights = Float[np.ndarray, " m"]


class Estimate(NamedTuple):
    """A number with its 95 % interval, from so many kinds of networks."""

    value: float
    low: float
    high: float
    groups: int


class Agreement(NamedTuple):
    """Of loss and accuracy: -1 where every lower loss has a higher accuracy."""

    pearson: Correlation
    spearman: Correlation


class Difference(NamedTuple):
    """Of two means over seeds, with its standard error; None where either has but one seed."""

    value: float
    error: float | None


def loss_and_accuracy(groups: Sequence[Group]) -> Agreement | None:
    """How closely the accuracy of the best layer follows the loss; None for fewer than five kinds, or where
    either is the same throughout.
    """
    losses, accuracies = _values(groups, _loss), _values(groups, _accuracy)
    straight, ranked = pearson(losses, accuracies), spearman(losses, accuracies)
    return Agreement(straight, ranked) if straight and ranked else None


def at_fixed_loss(groups: Sequence[Group], first: str, second: str) -> Estimate | None:
    """How much higher the accuracy of encoding `first` is than that of `second` at equal loss.

    Least squares of accuracy = a[block] + b[encoding] + c loss, with a slope c that all share, fitted to all
    groups; the contrast is b[first] - b[second], its interval Student's (analysis of covariance). Differences
    between blocks do not count, those of depth only as far as loss does not tell them. None where the groups
    do not determine it, or leave nothing to judge its error by.
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


def of_doubling(groups: Sequence[Group], value: Callable[[Group], float]) -> Estimate | None:
    """What twice the depth adds to `value`, such as its mean loss, in every block and encoding alike.

    Least squares of value = a[block and encoding] + c log2(depth). None where no two depths of one block and
    encoding are there, or too few to judge the error by.
    """
    if not groups:
        return None
    kinds = list(dict.fromkeys(group[:2] for group in groups))
    own = [np.array([group[:2] == kind for group in groups], dtype=float) for kind in kinds]
    design = np.column_stack([*own, np.log2(_values(groups, lambda group: group.depth))])
    weights = np.zeros(design.shape[1])
    weights[-1] = 1
    return combination(design, _values(groups, value), weights)


def by_layer(first: Group, second: Group) -> list[Difference]:
    """How much more accurate each layer 0..L of `first` is. Raises ValueError for unequal depths."""
    if len(first.layers) != len(second.layers):
        raise ValueError(f"depths {first.depth} and {second.depth} have no layers to compare")
    found = []
    for one, other in zip(first.layers, second.layers, strict=True):
        squares = one.deviation**2 / one.seeds + other.deviation**2 / other.seeds
        error = float(np.sqrt(squares)) if min(one.seeds, other.seeds) > 1 else None
        found.append(Difference(one.mean - other.mean, error))
    return found


def peak(group: Group) -> int:
    """The layer that is most accurate on average over seeds, on test images: to look at, not to choose."""
    return int(np.argmax([layer.mean for layer in group.layers]))


def combination(design: Matrix, values: Vector, weights: Weights) -> Estimate | None:
    """weights . coefficients of the least-squares fit of `values` by the columns of `design`, with Student's
    95 % interval; None where the fit leaves it open, or has no residual to judge errors by.
    """
    inverse = np.linalg.pinv(design)
    freedom = len(values) - int(np.linalg.matrix_rank(design))
    if freedom < 1 or not np.allclose(weights @ inverse @ design, weights):
        return None
    fitted = inverse @ values
    variance = ((values - design @ fitted) ** 2).sum() / freedom * ((weights @ inverse) ** 2).sum()
    value, half = weights @ fitted, student.ppf((1 + CONFIDENCE_LEVEL) / 2, freedom) * np.sqrt(variance)
    return Estimate(float(value), float(value - half), float(value + half), len(values))


def _levels(groups: Sequence[Group], name: str) -> list[str]:
    return list(dict.fromkeys(getattr(group, name) for group in groups))


def _indicators(groups: Sequence[Group], name: str, levels: Sequence[str]) -> Matrix:
    return np.array([[getattr(group, name) == level for level in levels] for group in groups], dtype=float)


def _values(groups: Sequence[Group], value: Callable[[Group], float]) -> Vector:
    return np.array([value(group) for group in groups], dtype=float)


def _loss(group: Group) -> float:
    return group.loss.mean


def _accuracy(group: Group) -> float:
    return group.accuracy.mean
