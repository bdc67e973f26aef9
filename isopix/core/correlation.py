"""Pearson and Spearman correlation with 95 % confidence intervals."""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from isopix.core.bootstrap import Z_95

MIN_POINTS = 5  # below which no interval is computed
EPSILON = 1e-12  # distance from -1 and 1, where Fisher's transform is infinite

Vector = Float[np.ndarray, " n"]


class Correlation(NamedTuple):
    """A correlation coefficient, its 95 % confidence interval and the number of points."""

    rho: float
    low: float
    high: float
    num_points: int


def pearson(one: Vector, other: Vector) -> Correlation | None:
    """Return Pearson's correlation; None for fewer than five points or a constant. Interval: Fisher's."""
    rho = pearson_coefficient(one, other)
    if rho is None or len(one) < MIN_POINTS:
        return None
    return Correlation(rho, *_interval(rho, 1 / (len(one) - 3), limit=1 - EPSILON), len(one))


def spearman(one: Vector, other: Vector) -> Correlation | None:
    """Return Spearman's rank correlation; None for fewer than five points or a constant.

    The interval is Fisher's with the variance of Bonett and Wright (2000), (1 + rho^2 / 2) / (n - 3); rho is
    first clamped to half of its smallest step away from -1 and 1, where that interval would have no width.
    """
    rho, count = pearson_coefficient(ranks(one), ranks(other)), len(one)
    if rho is None or count < MIN_POINTS:
        return None
    limit = 1 - 6 / (count * (count**2 - 1))
    return Correlation(rho, *_interval(rho, (1 + rho**2 / 2) / (count - 3), limit), count)


def pearson_coefficient(one: Vector, other: Vector) -> float | None:
    """Return Pearson's coefficient; None if one of the two is constant or empty."""
    if not len(one) or np.ptp(one) == 0 or np.ptp(other) == 0:
        return None
    return float(np.corrcoef(one, other)[0, 1])


def ranks(values: Vector) -> Vector:
    """Return ranks from 1 for the smallest; equal values have the mean of their ranks."""
    _, group, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (counts.cumsum() - (counts - 1) / 2)[group]


def _interval(rho: float, variance: float, limit: float) -> tuple[float, float]:
    center, half = math.atanh(min(limit, max(-limit, rho))), Z_95 * math.sqrt(variance)
    return math.tanh(center - half), math.tanh(center + half)
