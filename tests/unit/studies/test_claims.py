"""Verdicts: what holds, what is refuted after Holm's correction, and what is left open."""

import numpy as np
import pytest

from isopix.studies.claims import Contrast, judge
from isopix.studies.estimates import ErrorSource, Estimate, crossed_estimate
from isopix.studies.results import ClaimRecord


def contrast(mean: float, error: float = 1.0, **more: object) -> Contrast:
    estimate = Estimate(mean, (ErrorSource("seeds", error, 1e6),), 5, 1)
    return Contrast("more", "points", estimate, (mean,) * 5, **more)  # type: ignore[arg-type]


def judged(*claims: list[Contrast]) -> list[ClaimRecord]:
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
    assert judged(contrasts)[0].verdict == verdict


def test_refutations_are_corrected_by_holm() -> None:
    """Against Holm's procedure by hand: p of 2.5, 2.9 and 3.2 standard errors are .0124, .0037 and .0014."""
    claims = judged([contrast(-2.5)], [contrast(-2.9), contrast(-3.2)], [contrast(1.0)])
    found = [each.adjusted_p for result in claims for each in result.contrasts]
    assert found == pytest.approx([2 * 0.012419, 3 * 0.003732, 4 * 0.001374, 1.0], abs=1e-5)
    assert [each.verdict for each in claims] == ["does not hold", "does not hold", "not decided"]
    assert judged([contrast(-2.5)] * 5)[0].verdict == "not decided"
    unjudged = [contrast(-2.5, regime="no gain")] * 4
    (first, *_) = judged([contrast(-2.5), *unjudged])[0].contrasts
    assert first.adjusted_p == pytest.approx(0.012419, abs=1e-5)


def test_without_differences_few_studies_refute_anything() -> None:
    draw, refuted = np.random.default_rng(0), 0
    for _ in range(400):
        estimates = [crossed_estimate(draw.normal(size=(5, 4))) for _ in range(10)]
        contrasts = [Contrast("more", "", each) for each in estimates]
        refuted += judged(contrasts[:6], contrasts[6:])[0].verdict == "does not hold"
    assert refuted <= 0.05 * 400


def test_an_open_contrast_says_what_it_needs() -> None:
    def needed(*contrasts: Contrast) -> str:
        return judged(list(contrasts))[0].contrasts[0].needed

    assert needed(contrast(1.5, effect=1.0)).startswith("needs ")
    assert needed(contrast(0.1, error=0.5, effect=3.0)) == "3 points would have been detected"
    assert needed(contrast(5.0)) == ""
    below = needed(contrast(-2.1), *[contrast(1.0)] * 9)
    assert below == "below zero, but not after Holm's correction (p = 0.36)"
    assert needed(Contrast("more", "", None, (1.0,))) == "needs 2 seeds or more"
    assert needed(Contrast("more", "", None)) == "needs networks that are missing"


def test_a_record_has_what_was_found() -> None:
    (own,) = judged([contrast(2.0)])[0].contrasts
    assert own.interval == pytest.approx((2 - 1.959966, 2 + 1.959966), abs=1e-5)
    assert (own.mean, own.verdict, own.needed) == (2.0, "holds", "")
