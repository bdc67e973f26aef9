"""Correlation of two lists of numbers, of the numbers (Pearson) or of their ranks (Spearman), with a 95 %
interval.
"""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from isopix.core.bootstrap import Z_95

MIN_POINTS = 5  # points below which a correlation is not told
EPSILON = 1e-12  # of a coefficient of exactly -1 or 1, whose interval has no finite logarithm

Vector = Float[np.ndarray, " n"]


class Correlation(NamedTuple):
    """A correlation coefficient of so many points, and its 95 % interval."""

    rho: float
    low: float
    high: float
    points: int


def pearson(one: Vector, other: Vector) -> Correlation | None:
    """Of the numbers; None for fewer than five, or for numbers that are all equal. Interval: Fisher's."""
    rho = pearson_coefficient(one, other)
    if rho is None or len(one) < MIN_POINTS:
        return None
    return Correlation(rho, *_interval(rho, 1 / (len(one) - 3), most=1 - EPSILON), len(one))


def spearman(one: Vector, other: Vector) -> Correlation | None:
    """Of the ranks; None for fewer than five, or for numbers that are all equal.

    The interval is Fisher's with the variance of Bonett and Wright (2000), (1 + rho^2 / 2) / (n - 3); rho is
    first kept half a step of its scale away from -1 and 1, where that interval would have no width.
    """
    rho, count = pearson_coefficient(ranks(one), ranks(other)), len(one)
    if rho is None or count < MIN_POINTS:
        return None
    most = 1 - 6 / (count * (count**2 - 1))
    return Correlation(rho, *_interval(rho, (1 + rho**2 / 2) / (count - 3), most), count)


def pearson_coefficient(one: Vector, other: Vector) -> float | None:
    """Pearson's; None where one of the two is the same number throughout."""
    if not len(one) or np.ptp(one) == 0 or np.ptp(other) == 0:
        return None
    return float(np.corrcoef(one, other)[0, 1])


def ranks(values: Vector) -> Vector:
    """1 for the smallest; equal values share the mean of their ranks."""
    _, group, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (counts.cumsum() - (counts - 1) / 2)[group]


def _interval(rho: float, variance: float, most: float) -> tuple[float, float]:
    center, half = math.atanh(min(most, max(-most, rho))), Z_95 * math.sqrt(variance)
    return math.tanh(center - half), math.tanh(center + half)
