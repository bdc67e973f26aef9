"""Verdicts: what holds, what is refuted after Holm's correction, and what is left open."""

import numpy as np
import pytest

from isopix.studies.claims import ClaimResult, Contrast, adjust
from isopix.studies.estimates import ErrorSource, Estimate, crossed_estimate
from isopix.studies.results import Verdict


def contrast(mean: float, error: float = 1.0, **more: object) -> Contrast:
    estimate = Estimate(mean, (ErrorSource("seeds", error, 1e6),), 5, 1)
    return Contrast("more", "points", estimate, (mean,) * 5, **more)  # type: ignore[arg-type]


def claim(*contrasts: Contrast) -> ClaimResult:
    return ClaimResult("a", "One is more.", "figure 1", contrasts)


def verdict(*contrasts: Contrast) -> Verdict:
    return adjust([claim(*contrasts)])[0].verdict


def test_a_claim_holds_if_all_its_contrasts_do() -> None:
    assert verdict(contrast(2.0), contrast(3.0)) == "holds"
    assert verdict(contrast(1.9), contrast(3.0)) == "not decided"


def test_one_contrast_on_the_wrong_side_refutes_it() -> None:
    assert verdict(contrast(-4.0), contrast(5.0)) == "does not hold"


def test_what_networks_cannot_show_is_not_judged() -> None:
    hidden = contrast(5.0, regime="nothing was learned")
    assert verdict(hidden, contrast(5.0)) == "cannot be judged"
    assert verdict(contrast(-5.0, regime="nothing was learned"), contrast(5.0)) == "cannot be judged"
    assert verdict(hidden, contrast(-5.0)) == "does not hold"


def test_contrasts_that_are_not_judged_decide_nothing() -> None:
    assert verdict(contrast(3.0), contrast(-9.0, counted=False)) == "holds"


def test_refutations_are_corrected_by_holm() -> None:
    """Against Holm's procedure by hand: p of 2.5, 2.9 and 3.2 standard errors are .0124, .0037 and .0014."""
    claims = adjust([claim(contrast(-2.5)), claim(contrast(-2.9), contrast(-3.2)), claim(contrast(1.0))])
    found = [each.adjusted_p for result in claims for each in result.contrasts]
    assert found == pytest.approx([2 * 0.012419, 3 * 0.003732, 4 * 0.001374, 1.0], abs=1e-5)
    assert [each.verdict for each in claims] == ["does not hold", "does not hold", "not decided"]
    assert adjust([claim(*[contrast(-2.5)] * 5)])[0].verdict == "not decided"
    unjudged = [contrast(-2.5, regime="no gain")] * 4
    assert adjust([claim(contrast(-2.5), *unjudged)])[0].contrasts[0].adjusted_p == pytest.approx(
        0.012419, abs=1e-5
    )


def test_without_differences_few_studies_refute_anything() -> None:
    draw, refuted = np.random.default_rng(0), 0
    for _ in range(400):
        contrasts = []
        for _ in range(10):
            values = draw.normal(size=(5, 4))
            contrasts.append(Contrast("more", "", crossed_estimate(values), tuple(values.mean(1))))
        refuted += adjust([claim(*contrasts[:6]), claim(*contrasts[6:])])[0].verdict == "does not hold"
    assert refuted <= 0.05 * 400


def test_an_open_contrast_says_what_it_needs() -> None:
    assert "needs " in contrast(1.5, effect=1.0).needed
    assert contrast(0.1, error=0.5, effect=3.0).needed == "3 points would have been detected"
    assert contrast(5.0).needed == ""
    (below, *_) = adjust([claim(contrast(-2.1), *[contrast(1.0)] * 9)])[0].contrasts
    assert below.needed == "below zero, but not after Holm's correction (p = 0.36)"
    assert Contrast("more", "", None, (1.0,)).needed == "needs 2 seeds or more"
    assert Contrast("more", "", None).needed == "needs networks that are missing"


def test_a_record_has_what_was_found() -> None:
    (own,) = adjust([claim(contrast(2.0))])[0].record().contrasts
    assert own.interval == pytest.approx((2 - 1.959966, 2 + 1.959966), abs=1e-5)
    assert (own.mean, own.verdict, own.needed) == (2.0, "holds", "")
