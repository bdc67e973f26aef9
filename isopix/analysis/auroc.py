"""AUROC of a score between two sets of images, with a bootstrap interval."""

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.optimize import brentq
from scipy.special import ndtri
from torch import Tensor

from isopix.analysis.results import AUROC
from isopix.core.random import generator
from isopix.core.stats import CONFIDENCE_LEVEL, ResampleCounts, resample_counts

NUM_RESAMPLES = 1000
RESAMPLES_AT_A_TIME = 50  # for memory: of 100,000 images 40 MB

ManyGroups = Int[Tensor, " _"] | None
Values = Float[np.ndarray, " _"]


def auroc(
    first: Values,
    second: Values,
    *,
    groups: tuple[ManyGroups, ManyGroups] = (None, None),
    num_resamples: int = NUM_RESAMPLES,
    seed: int = 0,
) -> AUROC:
    """Return the AUROC of scikit-learn's `roc_auc_score`, with its percentile interval over resamples of the
    images of each set, or of groups of them; where the scores separate the sets completely, as all resamples
    do, Newcombe's interval. Equal seeds give the same resamples for every score.
    """
    from sklearn.metrics import roc_auc_score  # noqa: PLC0415

    labels = np.repeat([0, 1], [len(first), len(second)])
    value = float(roc_auc_score(labels, np.concatenate([first, second])))
    if value in (0, 1):
        sizes = [_num_groups(values, each) for values, each in zip((first, second), groups, strict=True)]
        bound = _separated_bound(*sizes)
        return AUROC(1.0, bound, 1.0) if value else AUROC(0.0, 0.0, 1 - bound)
    draws, found = [generator(seed, "auroc", each) for each in (0, 1)], []
    for start in range(0, num_resamples, RESAMPLES_AT_A_TIME):
        count = min(RESAMPLES_AT_A_TIME, num_resamples - start)
        counts = [
            resample_counts(len(values), count, draw, group)
            for values, draw, group in zip((first, second), draws, groups, strict=True)
        ]
        found.append(_weighted(first, second, *counts))
    tail = (1 - CONFIDENCE_LEVEL) / 2
    low, high = np.quantile(np.concatenate(found), [tail, 1 - tail])
    return AUROC(value, float(low), float(high))


def _num_groups(values: Values, groups: ManyGroups) -> int:
    return len(values) if groups is None else len(set(groups.tolist()))


def _separated_bound(first: int, second: int) -> float:
    """Return the lower limit of the 95 % interval of an AUROC of 1 of so many images in each set.

    Newcombe, "Confidence intervals for an effect size measure based on the Mann-Whitney statistic", part 2,
    2006, method 5: the A at which 1 - A is z standard errors, with the variance A (1 - A) (1 + k ((1 - A) /
    (2 - A) + A / (1 + A))) / (m n), k = (m + n) / 2 - 1.
    """
    squared_z = ndtri((1 + CONFIDENCE_LEVEL) / 2) ** 2

    def excess(area: float) -> float:
        others = ((first + second) / 2 - 1) * ((1 - area) / (2 - area) + area / (1 + area))
        return float(1 - area - squared_z * area * (1 + others) / (first * second))

    return float(brentq(excess, 0, 1))


def _weighted(first: Values, second: Values, counts: ResampleCounts, others: Float[Tensor, "R _"]) -> Values:
    """Return the AUROC of each resample: over values in order, the images of the second set at each, times
    those of the first below it and half of those at it.
    """
    distinct, place = np.unique(np.concatenate([first, second]), return_inverse=True)
    totals = []
    for weights, index in ((counts, place[: len(first)]), (others, place[len(first) :])):
        summed = torch.zeros(len(weights), len(distinct), dtype=torch.float64)
        totals.append(summed.index_add_(1, torch.from_numpy(index), weights.double()))
    below = totals[0].cumsum(1) - totals[0] / 2
    pairs = totals[0].sum(1) * totals[1].sum(1)
    return ((below * totals[1]).sum(1) / pairs).numpy()
