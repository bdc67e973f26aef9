"""Verdicts: by an interval over seeds that lies on one side of what a number must be above."""

import numpy as np
import pytest
from scipy import stats

from isopix.studies.claim_tests import Finding, Part


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ((1.0, 1.1, 0.9), "holds"),
        ((-1.0, -1.1, -0.9), "does not hold"),
        ((1.0, -1.0, 0.5), "not decided"),
        ((5.0,), "not decided"),  # of one seed no spread is known
        ((), "not decided"),
        ((0.0, 0.0), "not decided"),
    ],
)
def test_a_sign_within_its_interval_decides_nothing(values: tuple[float, ...], verdict: str) -> None:
    assert Part("", "", values).verdict == verdict


@pytest.mark.parametrize(("factor", "verdict"), [(0.99, "not decided"), (1.01, "holds")])
def test_the_border_is_that_of_students_test(factor: float, verdict: str) -> None:
    noise = np.array([-1.0, 0.0, 1.0])
    half = stats.t.interval(0.95, 2, scale=stats.sem(noise))[1]
    assert Part("", "", tuple(noise + half * factor)).verdict == verdict


@pytest.mark.parametrize("seeds", [2, 3, 5])
def test_of_no_difference_one_in_twenty_is_decided(seeds: int) -> None:
    draws = np.random.default_rng(seeds).normal(size=(4000, seeds))
    decided = [Part("", "", tuple(draw)).verdict != "not decided" for draw in draws]
    assert np.mean(decided) == pytest.approx(0.05, abs=0.012)


def test_a_number_must_be_above_its_least() -> None:
    assert Part("", "", (0.6, 0.61, 0.59), least=0.7).verdict == "does not hold"
    assert Part("", "", (0.8, 0.81, 0.79), least=0.7).verdict == "holds"


def test_a_claim_holds_if_all_its_parts_do() -> None:
    right, wrong, unclear = (Part("", "", values) for values in ((1.0, 1.0), (-1.0, -1.0), (1.0,)))
    for parts, verdict in (
        ((right, right), "holds"),
        ((right, unclear), "not decided"),
        ((right, wrong, unclear), "does not hold"),
        ((), "not decided"),
    ):
        assert Finding("a", "", "", parts).verdict == verdict
