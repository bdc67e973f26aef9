"""Statistics of accuracies and losses: 95% intervals, and correlations.

Images made from one original are not independent: the intervals are of groups of images.
"""

import math

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from scipy.special import stdtrit
from torch import Tensor

from isopix.core.types import Groups

CONFIDENCE_LEVEL = 0.95
Z_95 = 1.96  # standard deviations on each side of the mean that hold 95% of a normal distribution

Values = Float[np.ndarray, " n"]
GroupLabels = Int[np.ndarray, " n"]  # which group each value is of


def accuracy_interval(
    correct: Bool[Tensor, "F B"], groups: Groups | None = None
) -> list[tuple[float, float]]:
    """Return the ends of the 95% interval of each accuracy (Wilson's score).

    Groups count as the number of independent images whose accuracy would vary as much.
    """
    accuracies, count = correct.double().mean(1), correct.shape[1]
    counts = [float(count)] * len(correct) if groups is None else _effective_counts(correct, groups)
    return [wilson_interval(*pair) for pair in zip(accuracies.tolist(), counts, strict=True)]


def wilson_interval(accuracy: float, count: int | float) -> tuple[float, float]:
    """Return the 95% score interval of the accuracy on `count` independent images (Wilson 1927)."""
    square = Z_95**2 / count
    center = (accuracy + square / 2) / (1 + square)
    half = math.sqrt(accuracy * (1 - accuracy) * square + square**2 / 4) / (1 + square)
    return max(0.0, center - half), min(1.0, center + half)


def _effective_counts(correct: Bool[Tensor, "F B"], groups: Groups) -> list[float]:
    """Return p (1 - p) / variance of each accuracy p, the variance being estimated between groups."""
    distinct, group_of_image = torch.unique(groups.to(correct.device), return_inverse=True)
    num_groups, count = len(distinct), correct.shape[1]
    accuracy = correct.double().mean(1, keepdim=True)
    sums = torch.zeros(len(correct), num_groups, dtype=torch.float64, device=correct.device)
    sums.index_add_(1, group_of_image, correct.double() - accuracy)
    variance = sums.square().sum(1) * num_groups / max(1, num_groups - 1) / count**2
    counts = (accuracy * (1 - accuracy))[:, 0] / variance
    return counts.nan_to_num(num_groups, num_groups, num_groups).clamp(num_groups, count).tolist()


def mean_half_width(values: Values, groups: GroupLabels | None = None) -> float | None:
    """Return half the width of the mean's 95% interval, by Student's t; None for fewer than two groups.

    With groups of different sizes the mean is a ratio (Cochran 1977, section 2.11).
    """
    found = mean_standard_error(values, groups)
    return None if found is None else float(stdtrit(found[1], (1 + CONFIDENCE_LEVEL) / 2)) * found[0]


def mean_standard_error(values: Values, groups: GroupLabels | None = None) -> tuple[float, int] | None:
    """Return the standard error of the mean and its degrees of freedom; None for fewer than two groups."""
    labels = np.arange(len(values)) if groups is None else groups
    _, group_of_value = np.unique(labels, return_inverse=True)
    residuals = np.bincount(group_of_value, values - values.mean())
    count = len(residuals)
    if count < 2:
        return None
    variance = float(np.square(residuals).sum()) * count / (count - 1) / len(values) ** 2
    return math.sqrt(variance), count - 1


def rankdata(values: Values | Int[np.ndarray, " n"]) -> Values:
    """Return ranks from 1, the mean for ties: `scipy.stats.rankdata`, whose import takes a second."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (counts.cumsum() - (counts - 1) / 2)[inverse]


def pearson_coefficient(x: Values, y: Values) -> float | None:
    """Return Pearson's r; None if x or y is constant or empty."""
    if not len(x) or np.ptp(x) == 0 or np.ptp(y) == 0:
        return None
    return float(np.corrcoef(x, y)[0, 1])
