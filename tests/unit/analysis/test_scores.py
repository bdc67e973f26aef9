"""AUROC against scikit-learn, also of every resample."""

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score

from isopix.analysis.results import AUROC
from isopix.analysis.scores import auroc
from isopix.core.random import generator
from isopix.core.stats import resample_counts

FIRST = np.round(np.random.default_rng(0).normal(0, 1, 80), 1)  # rounded, so that some are equal
SECOND = np.round(np.random.default_rng(1).normal(0.7, 1, 50), 1)


def resampled(num_resamples: int, seed: int) -> list[float]:
    """The AUROC of each resample, one after the other, by scikit-learn."""
    labels, values = np.repeat([0, 1], [80, 50]), np.concatenate([FIRST, SECOND])
    draws = [generator(seed, "auroc", each) for each in (0, 1)]
    counts = [
        torch.cat(
            [
                resample_counts(size, min(50, num_resamples - start), draw)
                for start in range(0, num_resamples, 50)
            ]
        )
        for size, draw in zip((80, 50), draws, strict=True)
    ]
    weights = torch.cat(counts, 1).numpy()
    return [roc_auc_score(labels, values, sample_weight=each) for each in weights]


def test_the_value_and_the_interval_are_those_of_scikit_learn() -> None:
    found, expected = auroc(FIRST, SECOND, num_resamples=120, seed=4), resampled(120, seed=4)
    labels = np.repeat([0, 1], [80, 50])
    assert found.auroc == roc_auc_score(labels, np.concatenate([FIRST, SECOND]))
    assert (found.low, found.high) == pytest.approx(tuple(np.quantile(expected, [0.025, 0.975])))
    assert found.low < found.auroc < found.high


def test_sets_that_are_separated_have_an_interval_that_narrows_with_their_sizes() -> None:
    """One image of each: 1 / (1 + z^2) with z = 1.95996 by hand."""
    above = [auroc(np.zeros(size), np.ones(size)) for size in (1, 5, 100)]
    assert above[0] == AUROC(1.0, above[0].low, 1.0)
    assert above[0].low == pytest.approx(0.206549, rel=1e-5)
    assert 0.5 < above[1].low < 0.7
    assert 0.95 < above[2].low < 1
    below = auroc(np.ones(5), np.zeros(5))
    assert (below.auroc, below.low) == (0, 0)
    assert below.high == pytest.approx(1 - above[1].low)
    groups = torch.zeros(5, dtype=torch.int64), torch.zeros(5, dtype=torch.int64)
    assert auroc(np.zeros(5), np.ones(5), groups=groups).low == above[0].low


def test_the_interval_holds_the_true_value_in_95_percent_of_draws() -> None:
    """Normal values with a difference of 0.7: AUROC = Phi(0.7 / sqrt 2) = 0.6897."""
    random, covered = np.random.default_rng(3), 0
    for _ in range(200):
        found = auroc(random.normal(0, 1, 60), random.normal(0.7, 1, 60), num_resamples=200)
        covered += found.low <= 0.6897 <= found.high
    assert 180 <= covered <= 200


def test_copies_in_groups_do_not_narrow_the_interval() -> None:
    groups = torch.arange(80).repeat_interleave(4), torch.arange(50).repeat_interleave(4)
    single = auroc(FIRST, SECOND)
    copied = auroc(FIRST.repeat(4), SECOND.repeat(4), groups=groups)
    taken_apart = auroc(FIRST.repeat(4), SECOND.repeat(4))
    assert copied == pytest.approx(single)
    assert taken_apart.high - taken_apart.low < 0.7 * (single.high - single.low)
