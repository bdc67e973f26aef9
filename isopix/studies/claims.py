"""Verdicts on claims by contrasts, whose errors are of seeds, of kinds of networks and of test images."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.optimize import brentq
from scipy.special import fdtri, stdtrit

from isopix.core.stats import CONFIDENCE_LEVEL, GroupLabels, Values, mean_standard_error
from isopix.studies.inductive_bias.results import ClaimRecord, ContrastRecord, Verdict

Crossed = Float[np.ndarray, "S K"]  # a value for each seed (rows) and each kind of network (columns)
PerImage = Float[np.ndarray, " B"]  # the mean over seeds and kinds, of each test image


class ErrorSource(NamedTuple):
    """A source of error of a mean: its standard error, and the degrees of freedom of that."""

    name: str
    standard_error: float
    freedom: float


class Noise(NamedTuple):
    """The variance between seeds of single networks, pooled over several, and its degrees of freedom."""

    variance: float
    freedom: int


class Estimate(NamedTuple):
    """A mean with its sources of error."""

    mean: float
    sources: tuple[ErrorSource, ...]

    @property
    def standard_error(self) -> float:
        return math.hypot(*(each.standard_error for each in self.sources))

    def half_width(self, confidence: float = CONFIDENCE_LEVEL) -> float:
        """Return half the interval: Student's half-widths in quadrature (Satterthwaite's is too narrow)."""
        tail = (1 + confidence) / 2
        return math.hypot(*(stdtrit(each.freedom, tail) * each.standard_error for each in self.sources))

    def p_value(self) -> float:
        """Return the two-sided p of a true mean of zero, at which the interval reaches it."""
        distance = abs(self.mean)
        if distance == 0 or not self.sources:
            return 1.0
        if self.half_width(1 - 1e-15) <= distance:
            return 1e-15
        return 1 - float(brentq(lambda level: self.half_width(level) - distance, 0.0, 1 - 1e-15, xtol=1e-15))


def crossed_estimate(
    values: Crossed,
    images: PerImage | None = None,
    groups: GroupLabels | None = None,
    noise: Noise | None = None,
    encodings: Sequence[str] = (),
) -> Estimate | None:
    """Return the mean of `values` with errors of seeds, of kinds of networks, and of test `images` in groups.

    Kinds are taken one by one or by their `encodings`, whichever is wider: depths of one encoding may agree.
    `noise` is the variance of one value as more networks give it, unless an F-test finds that of the rows to
    be larger. None without two seeds: how much a seed matters is then unknown.
    """
    seeds, kinds = values.shape
    if seeds < 2 or not kinds:
        return None
    sources = [_source("seeds", values.mean(1))]
    if noise is not None:
        pooled = noise.variance / kinds / seeds
        if sources[0].standard_error ** 2 <= pooled * fdtri(seeds - 1, noise.freedom, CONFIDENCE_LEVEL):
            sources = [ErrorSource("seeds", math.sqrt(pooled), noise.freedom)]
    if kinds > 1:
        sources.append(_kind_source(values.mean(0), encodings))
    if images is not None:
        sources.append(_source("images", images, groups))
    return Estimate(float(values.mean()), tuple(sources))


def _kind_source(means: Float[np.ndarray, " K"], encodings: Sequence[str]) -> ErrorSource:
    names = np.array(encodings)
    by_encoding = np.array([means[names == name].mean() for name in dict.fromkeys(encodings)])
    found = [_source("kinds", each) for each in (means, by_encoding) if len(each) > 1]
    tail = (1 + CONFIDENCE_LEVEL) / 2
    return max(found, key=lambda source: stdtrit(source.freedom, tail) * source.standard_error)


def _source(name: str, values: Values, groups: GroupLabels | None = None) -> ErrorSource:
    found = mean_standard_error(values, groups)
    assert found is not None, "two groups or more"
    return ErrorSource(name, *found)


LEVEL = 0.05  # of all refutations of a study under one pool
ORDER: tuple[Verdict, ...] = ("does not hold", "cannot be judged", "not decided", "holds")


class Mean(NamedTuple):
    """A mean with its sources of error (None if it cannot be estimated), and the means of which it is one."""

    estimate: Estimate | None
    values: tuple[float, ...]  # by seed
    by_kind: dict[str, float]


class Contrast(NamedTuple):
    """A contrast before its p-value is adjusted; a correlation is estimated on Fisher's scale if `fisher`."""

    text: str
    unit: str
    found: Mean
    regime: str = ""
    counted: bool = True
    fisher: bool = False

    @property
    def can_refute(self) -> bool:
        return self.counted and not self.regime and self.found.estimate is not None

    @property
    def refuting_p(self) -> float:
        """The unadjusted p of a difference on the wrong side; 1 on the right one."""
        estimate = self.found.estimate
        return 1.0 if estimate is None or estimate.mean >= 0 else estimate.p_value()

    def tested(self, adjusted_p: float) -> ContrastRecord:
        """Return mean, 95% interval and verdict: above zero it `holds`, by the adjusted p it does not."""
        estimate, values, by_kind = self.found
        if estimate is None:
            mean = sum(values) / len(values) if values else None
            return ContrastRecord(
                self.text, self.unit, mean, values=values, by_kind=by_kind, counted=self.counted
            )
        center, half = estimate.mean, estimate.half_width()
        found = (center, center - half, center + half)
        mean, low, high = (math.tanh(each) if self.fisher else each for each in found)
        verdict: Verdict = "does not hold" if adjusted_p < LEVEL else "not decided"
        if low > 0:
            verdict = "holds"
        if self.regime:
            verdict = "cannot be judged"
        measured = (mean, (low, high), verdict, values, by_kind)
        return ContrastRecord(self.text, self.unit, *measured, self.regime, self.counted, adjusted_p)


def judge(claims: Sequence[tuple[str, str, str, Sequence[Contrast]]]) -> list[ClaimRecord]:
    """Return the verdicts on claims, given by letter, text, source and contrasts.

    A claim `holds` if all contrasts do (intersection-union test, which needs no correction). The p of all
    that can refute one are adjusted together: the probability of any false refutation is at most LEVEL.
    """
    tested = [each for *_, contrasts in claims for each in contrasts if each.can_refute]
    adjusted = iter(holm([each.refuting_p for each in tested]))
    found = []
    for letter, text, source, contrasts in claims:
        records = tuple(each.tested(next(adjusted) if each.can_refute else 1.0) for each in contrasts)
        verdicts = {each.verdict for each in records if each.counted}
        verdict: Verdict = next((each for each in ORDER if each in verdicts), "not decided")
        found.append(ClaimRecord(letter, text, source, verdict, records))
    return found


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values adjusted for all of them (Holm 1979)."""
    order = np.argsort(p_values, kind="stable")
    stepped = np.arange(len(order), 0, -1) * np.array(p_values)[order]
    adjusted = np.empty(len(order))
    adjusted[order] = np.maximum.accumulate(stepped.clip(max=1))
    return adjusted.tolist()
