"""Intervals of crossed designs cover the truth; claims hold, are refuted after Holm, or left open."""

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from isopix.studies.claims import Contrast, ErrorSource, Estimate, Mean, Noise, crossed_estimate, judge
from isopix.studies.inductive_bias.results import ClaimRecord


def contrast(mean: float, error: float = 1.0, **more: Any) -> Contrast:
    estimate = Estimate(mean, (ErrorSource("seeds", error, 1e6),))
    return Contrast("more", "points", Mean(estimate, (mean,) * 5, {}), **more)


def with_verdicts(*claims: list[Contrast]) -> list[ClaimRecord]:
    return judge([("a", "One is more.", "figure 1", each) for each in claims])


HIDDEN = contrast(5.0, regime="nothing was learned")


@pytest.mark.parametrize(
    ("contrasts", "verdict"),
    [
        ([contrast(2.0), contrast(3.0)], "holds"),
        ([contrast(1.9), contrast(3.0)], "not decided"),
        ([contrast(-4.0), contrast(5.0)], "does not hold"),
        ([HIDDEN, contrast(5.0)], "cannot be judged"),
        ([contrast(-5.0, regime="nothing was learned"), contrast(5.0)], "cannot be judged"),
        ([HIDDEN, contrast(-5.0)], "does not hold"),
        ([contrast(3.0), contrast(-9.0, counted=False)], "holds"),
    ],
)
def test_a_claim_holds_if_all_its_contrasts_do_and_one_refutes_it(
    contrasts: list[Contrast], verdict: str
) -> None:
    assert with_verdicts(contrasts)[0].verdict == verdict


def test_refutations_are_corrected_by_holm() -> None:
    """Against Holm's procedure by hand: p of 2.5, 2.9 and 3.2 standard errors are .0124, .0037 and .0014."""
    claims = with_verdicts([contrast(-2.5)], [contrast(-2.9), contrast(-3.2)], [contrast(1.0)])
    found = [each.adjusted_p for result in claims for each in result.contrasts]
    assert found == pytest.approx([2 * 0.012419, 3 * 0.003732, 4 * 0.001374, 1.0], abs=1e-5)
    assert [each.verdict for each in claims] == ["does not hold", "does not hold", "not decided"]
    assert with_verdicts([contrast(-2.5)] * 5)[0].verdict == "not decided"
    unjudged = [contrast(-2.5, regime="no gain")] * 4
    (first, *_) = with_verdicts([contrast(-2.5), *unjudged])[0].contrasts
    assert first.adjusted_p == pytest.approx(0.012419, abs=1e-5)


def drawn(
    draw: np.random.Generator, shape: tuple[int, int], seeds: float, kinds: float, noise: float
) -> np.ndarray:
    """Values around zero with effects of rows, of columns and of both."""
    rows, columns = shape
    return (
        seeds * draw.normal(size=(rows, 1))
        + kinds * draw.normal(size=(1, columns))
        + noise * draw.normal(size=shape)
    )


@pytest.mark.parametrize("spread", [(0, 0, 1), (1, 0, 0.3), (0, 1, 0.3), (1, 1, 1), (0.2, 2, 0.2)])
@pytest.mark.parametrize("shape", [(5, 9), (3, 3), (2, 6)])
def test_the_interval_holds_the_truth_at_least_as_often_as_it_says(
    spread: tuple[float, float, float], shape: tuple[int, int]
) -> None:
    draw, held = np.random.default_rng(0), []
    for _ in range(600):
        found = crossed_estimate(drawn(draw, shape, *spread))
        held.append(abs(found.mean) <= found.half_width())
    assert np.mean(held) >= 0.95 - 2 * math.sqrt(0.95 * 0.05 / 600)


def test_one_column_is_students_test() -> None:
    values = np.array([[1.0], [2.5], [0.5], [3.0]])
    found = crossed_estimate(values)
    theirs = stats.ttest_1samp(values[:, 0], 0.2)
    assert found._replace(mean=found.mean - 0.2).p_value() == pytest.approx(theirs.pvalue)
    low, high = theirs.confidence_interval()
    assert (found.mean - found.half_width(), found.mean + found.half_width()) == pytest.approx((low, high))


def test_pooled_noise_narrows_the_interval_of_few_seeds() -> None:
    values = np.array([[2.9], [3.1], [3.0]])
    found = crossed_estimate(values, noise=Noise(0.25, 40))
    assert found.half_width() == pytest.approx(stats.t.ppf(0.975, 40) * 0.5 / math.sqrt(3))


def test_noise_of_other_networks_never_hides_that_of_these() -> None:
    values = np.array([[-9.0], [0.0], [9.0]])
    found = crossed_estimate(values, noise=Noise(0.25, 40))
    assert found.standard_error == pytest.approx(9 / math.sqrt(3))


def test_p_and_interval_agree() -> None:
    estimate = Estimate(2.0, (ErrorSource("seeds", 0.5, 4), ErrorSource("images", 0.4, 900)))
    half = estimate.half_width()
    assert estimate._replace(mean=half).p_value() == pytest.approx(0.05)
    assert estimate._replace(mean=0.0).p_value() == 1
    assert Estimate(2.0, (ErrorSource("seeds", 0.0, 4),)).p_value() < 1e-12


def test_depths_of_one_encoding_do_not_count_as_independent() -> None:
    """Six kinds of three encodings whose depths agree: Student's interval of three means."""
    values = np.tile(np.repeat([0.1, 0.3, 0.08], 2), (4, 1))
    found = crossed_estimate(values, encodings=["a", "a", "b", "b", "c", "c"])
    kinds = {each.name: each for each in found.sources}["kinds"]
    half = stats.t.ppf(0.975, 2) * stats.sem([0.1, 0.3, 0.08])
    assert kinds.freedom == 2
    assert found.half_width() == pytest.approx(half)


def test_encodings_are_the_source_where_their_interval_is_wider_though_their_error_is_smaller() -> None:
    """Three encodings are known with two degrees of freedom, and nine kinds with eight."""
    means = np.add.outer([0.0, 1.0, 2.0], [-2.2, 0.0, 2.2]).ravel()
    found = crossed_estimate(np.tile(means, (2, 1)), encodings=list(np.repeat(["a", "b", "c"], 3)))
    (kinds,) = [each for each in found.sources if each.name == "kinds"]
    assert kinds.freedom == 2
    assert kinds.standard_error < np.std(means, ddof=1) / 3
