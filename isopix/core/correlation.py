"""Pearson and Spearman correlation, with 95 % confidence intervals."""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from isopix.core.bootstrap import Z_95

MIN_POINTS = 5  # below which no correlation is reported
EPSILON = 1e-12  # distance of a coefficient from -1 and 1, where the Fisher transform is infinite

Values = Float[np.ndarray, " n"]


class Correlation(NamedTuple):
    """A correlation coefficient, its 95 % confidence interval, and the number of points."""

    rho: float
    low: float
    high: float
    num_points: int


def pearson(x: Values, y: Values) -> Correlation | None:
    """Return Pearson's r with Fisher's interval; None for fewer than five points or constant values."""
    rho = pearson_coefficient(x, y)
    if rho is None or len(x) < MIN_POINTS:
        return None
    return Correlation(rho, *_fisher_interval(rho, 1 / (len(x) - 3), limit=1 - EPSILON), len(x))


def spearman(x: Values, y: Values) -> Correlation | None:
    """Return Spearman's rho; None for fewer than five points or constant values.

    SciPy has no interval for it: this is Fisher's with the variance of Bonett and Wright (2000),
    (1 + rho^2 / 2) / (n - 3), rho being kept half a step of its scale away from -1 and 1, where that interval
    would have no width.
    """
    rho, count = pearson_coefficient(rankdata(x), rankdata(y)), len(x)
    if rho is None or count < MIN_POINTS:
        return None
    limit = 1 - 6 / (count * (count**2 - 1))
    return Correlation(rho, *_fisher_interval(rho, (1 + rho**2 / 2) / (count - 3), limit), count)


def rankdata(values: Values | Int[np.ndarray, " n"]) -> Values:
    """Return the ranks of values from 1, the mean rank for ties: `scipy.stats.rankdata`, whose import takes a
    second.
    """
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (counts.cumsum() - (counts - 1) / 2)[inverse]


def pearson_coefficient(x: Values, y: Values) -> float | None:
    """Return Pearson's r; None if x or y is constant or empty."""
    if not len(x) or np.ptp(x) == 0 or np.ptp(y) == 0:
        return None
    return float(np.corrcoef(x, y)[0, 1])


def _fisher_interval(rho: float, variance: float, limit: float) -> tuple[float, float]:
    center, half_width = math.atanh(min(limit, max(-limit, rho))), Z_95 * math.sqrt(variance)
    return math.tanh(center - half_width), math.tanh(center + half_width)
