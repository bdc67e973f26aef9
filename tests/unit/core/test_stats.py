"""Intervals agree with SciPy's and cover the truth by simulation; correlations are SciPy's."""

from collections.abc import Iterable

import numpy as np
import pytest
import torch
from scipy import stats as scipy_stats

from isopix.core import stats
from isopix.core.random import generator
from isopix.core.stats import mean_half_width, pearson_coefficient, rankdata


def test_the_interval_of_an_accuracy_is_wilsons() -> None:
    for right, count in ((0, 10), (7, 10), (180, 180), (412, 1000)):
        correct = (torch.arange(count) < right)[None]
        theirs = scipy_stats.binomtest(right, count).proportion_ci(method="wilson")
        [found] = stats.accuracy_interval(correct)
        assert found == pytest.approx((theirs.low, theirs.high), abs=1e-4)
        assert stats.accuracy_interval(correct, torch.arange(count)) == [pytest.approx(found, abs=0.01)]
    assert stats.accuracy_interval(torch.ones(1, 6).bool(), torch.zeros(6).long()) == [
        stats.wilson_interval(1.0, 1)
    ]


@pytest.mark.parametrize("easy", [0.6, 0.97])
def test_intervals_of_groups_cover_as_often_as_they_say(easy: float) -> None:
    """60 originals with three images each, which are almost always all correct or all wrong."""
    trials, originals, copies = 1000, 60, 3
    draw = generator(0, "test")
    chances = torch.where(torch.rand(trials, originals, generator=draw) < easy, 0.99, 0.05)
    chances = chances.repeat_interleave(copies, 1)
    correct = torch.rand(chances.shape, generator=draw) < chances
    truth, groups = 0.99 * easy + 0.05 * (1 - easy), torch.arange(originals).repeat_interleave(copies)

    def coverage(intervals: Iterable[tuple[float, float]]) -> float:
        return sum(low <= truth <= high for low, high in intervals) / trials

    assert 0.92 < coverage(stats.accuracy_interval(correct, groups)) < 0.985
    assert coverage(stats.accuracy_interval(correct)) < 0.9


def test_the_half_width_of_equal_groups_is_that_of_their_means_by_scipy() -> None:
    random = np.random.default_rng(3)
    values, order = random.normal(size=24), random.permutation(24)
    groups = np.repeat([5, 9, -2, 0, 7, 8], 4)
    for grouped, found in (
        (values.reshape(6, 4).mean(1), (values[order], groups[order])),
        (values, (values,)),
    ):
        expected = scipy_stats.ttest_1samp(grouped, 0).confidence_interval(0.95)
        assert mean_half_width(*found) == pytest.approx((expected.high - expected.low) / 2, rel=1e-12)
    assert mean_half_width(values[:1]) is None
    assert mean_half_width(values, np.zeros(24, dtype=int)) is None


@pytest.mark.parametrize("seed", range(3))
def test_ranks_and_their_correlation_are_scipys(seed: int) -> None:
    one, other = np.random.default_rng(seed).normal(size=(2, 9)).round(1)  # with ties
    assert np.array_equal(rankdata(one), scipy_stats.rankdata(one))
    found = pearson_coefficient(rankdata(one), rankdata(other))
    assert found == pytest.approx(scipy_stats.spearmanr(one, other).statistic)
    assert pearson_coefficient(one, np.full(9, 0.5)) is None
