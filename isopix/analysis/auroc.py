"""AUROC of a score between two sets of images, with a bootstrap interval."""

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from isopix.core.bootstrap import CONFIDENCE_LEVEL, ResampleCounts, resample_counts
from isopix.core.random import generator

NUM_RESAMPLES = 1000
RESAMPLES_AT_A_TIME = 50  # for memory: of 100,000 images 40 MB

ManyGroups = Int[Tensor, " _"] | None
Values = Float[np.ndarray, " _"]


class AUROC(NamedTuple):
    """The probability that a random image of the second set has a higher score than one of the first, ties
    counting half, and its 95 % interval: 0.5 where the score does not distinguish the sets.
    """

    auroc: float
    low: float
    high: float


def auroc(
    first: Values,
    second: Values,
    *,
    groups: tuple[ManyGroups, ManyGroups] = (None, None),
    num_resamples: int = NUM_RESAMPLES,
    seed: int = 0,
) -> AUROC:
    """Return the AUROC of scikit-learn's `roc_auc_score`, with its percentile interval over resamples of the
    images of each set, or of groups of them. Equal seeds give the same resamples for every score.
    """
    from sklearn.metrics import roc_auc_score  # noqa: PLC0415

    labels = np.repeat([0, 1], [len(first), len(second)])
    value = float(roc_auc_score(labels, np.concatenate([first, second])))
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
