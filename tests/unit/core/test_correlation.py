"""Coefficients and Pearson's interval are SciPy's; Spearman's interval never has zero width."""

import numpy as np
import pytest
from scipy import stats

from isopix.core.correlation import pearson, rankdata, spearman

SEEDS = pytest.mark.parametrize("seed", range(5))


@SEEDS
def test_pearson_and_its_interval_are_scipys(seed: int) -> None:
    one, other = np.random.default_rng(seed).normal(size=(2, 20))
    found, truth = pearson(one, one + other), stats.pearsonr(one, one + other)
    assert found is not None
    assert found.rho == pytest.approx(truth.statistic)
    assert found[1:3] == pytest.approx(tuple(truth.confidence_interval()), abs=1e-4)  # 1.96 for 1.95996


@SEEDS
def test_spearman_is_pearson_of_ranks(seed: int) -> None:
    one, other = np.random.default_rng(seed).normal(size=(2, 9)).round(1)  # with ties
    found = spearman(one, other)
    assert found is not None
    assert found.rho == pytest.approx(stats.spearmanr(one, other).statistic)


@SEEDS
def test_ranks_are_scipys(seed: int) -> None:
    values = np.random.default_rng(seed).normal(size=50).round(1)  # with ties
    assert np.array_equal(rankdata(values), stats.rankdata(values))
    assert rankdata(np.zeros(0)).shape == (0,)


def test_a_straight_line_correlates_perfectly() -> None:
    line = np.arange(8.0)
    found = pearson(line, 3 - 2 * line)
    assert found is not None
    assert found == pytest.approx((-1, -1, -1, 8), abs=1e-9)


@pytest.mark.parametrize("correlate", [pearson, spearman])
def test_too_few_points_or_equal_numbers_have_none(correlate) -> None:
    assert correlate(np.zeros(0), np.zeros(0)) is None
    assert correlate(np.arange(4.0), np.arange(4.0)) is None
    assert correlate(np.arange(9.0), np.full(9, 0.5)) is None
