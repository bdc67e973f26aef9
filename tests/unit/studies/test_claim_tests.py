"""A claim is decided by the interval over seeds."""

import numpy as np
import pytest
from scipy import stats

from isopix.studies.claim_tests import ClaimResult, Contrast


@pytest.mark.parametrize(
    ("values", "conclusion"),
    [
        ((1.0, 1.1, 0.9), "holds"),
        ((-1.0, -1.1, -0.9), "does not hold"),
        ((1.0, -1.0, 0.5), "not decided"),
        ((5.0,), "not decided"),  # one seed has no standard deviation
        ((), "not decided"),
        ((0.0, 0.0), "not decided"),
    ],
)
def test_an_interval_around_zero_decides_nothing(values: tuple[float, ...], conclusion: str) -> None:
    assert Contrast("", "", values).conclusion == conclusion


@pytest.mark.parametrize(("factor", "conclusion"), [(0.99, "not decided"), (1.01, "holds")])
def test_the_decision_is_that_of_students_test(factor: float, conclusion: str) -> None:
    noise = np.array([-1.0, 0.0, 1.0])
    half = stats.t.interval(0.95, 2, scale=stats.sem(noise))[1]
    assert Contrast("", "", tuple(noise + half * factor)).conclusion == conclusion


@pytest.mark.parametrize("seeds", [2, 3, 5])
def test_without_a_difference_one_in_twenty_is_decided(seeds: int) -> None:
    draws = np.random.default_rng(seeds).normal(size=(4000, seeds))
    decided = [Contrast("", "", tuple(draw)).conclusion != "not decided" for draw in draws]
    assert np.mean(decided) == pytest.approx(0.05, abs=0.012)


def test_a_contrast_must_exceed_its_threshold() -> None:
    assert Contrast("", "", (0.6, 0.61, 0.59), threshold=0.7).conclusion == "does not hold"
    assert Contrast("", "", (0.8, 0.81, 0.79), threshold=0.7).conclusion == "holds"


def test_a_claim_holds_if_all_its_contrasts_do() -> None:
    right, wrong, unclear = (Contrast("", "", values) for values in ((1.0, 1.0), (-1.0, -1.0), (1.0,)))
    for contrasts, conclusion in (
        ((right, right), "holds"),
        ((right, unclear), "not decided"),
        ((right, wrong, unclear), "does not hold"),
        ((), "not decided"),
    ):
        assert ClaimResult("a", "", "", contrasts).conclusion == conclusion
