"""Verdicts on claims that one kind of network is better than another, by contrasts with their intervals."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace

from isopix.studies.estimates import POWER, Estimate
from isopix.studies.results import ClaimRecord, ContrastRecord, Verdict

LEVEL = 0.05  # of all refutations of a study under one pool


@dataclass(frozen=True)
class Contrast:
    """A difference in `unit` that is positive if the claim is true; `estimate` None: not measured.

    `values` are the means of each seed, `by_kind` those of each encoding and depth. `effect` is the
    difference that a study is planned to detect. `regime` says why the networks cannot show the difference;
    empty if they can. A contrast that is not `counted` is shown and decides nothing. `adjusted_p` is Holm's
    of a difference on the wrong side. A correlation is estimated on Fisher's scale, and shown as itself if
    `fisher`.
    """

    text: str
    unit: str
    estimate: Estimate | None
    values: tuple[float, ...] = ()
    by_kind: Mapping[str, float] = field(default_factory=dict)
    effect: float = 1.0
    regime: str = ""
    counted: bool = True
    adjusted_p: float = 1.0
    fisher: bool = False

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % interval of the mean."""
        if self.estimate is None:
            return None
        half = self.estimate.half_width()
        return self._shown(self.estimate.mean - half), self._shown(self.estimate.mean + half)

    @property
    def mean(self) -> float | None:
        """The mean; None if nothing was measured."""
        if self.estimate is not None:
            return self._shown(self.estimate.mean)
        return sum(self.values) / len(self.values) if self.values else None

    @property
    def refuting_p(self) -> float:
        """The unadjusted p of a difference on the wrong side; 1 on the right one."""
        if self.estimate is None or self.regime or self.estimate.mean >= 0:
            return 1.0
        return self.estimate.p_value()

    @property
    def verdict(self) -> Verdict:
        """Whether the interval lies above zero, or Holm's p refutes it."""
        if self.regime:
            return "cannot be judged"
        if self.interval is not None and self.interval[0] > 0:
            return "holds"
        return "does not hold" if self.adjusted_p < LEVEL else "not decided"

    @property
    def needed(self) -> str:
        """What decides a difference of `effect`, or the one measured where that is larger, with a probability
        of 80 %, as `needs 9 seeds`, or that Holm's correction left one undecided; empty unless it is.
        """
        if self.verdict != "not decided" or not self.counted:
            return ""
        if self.estimate is None:
            return "needs 2 seeds or more" if self.values else "needs networks that are missing"
        if self.interval is not None and self.interval[1] < 0:
            return f"below zero, but not after Holm's correction (p = {self.adjusted_p:.2g})"
        difference = max(self.effect, abs(self.estimate.mean))
        if self.estimate.power(difference) >= POWER:
            return f"{difference:.3g} {self.unit}".rstrip() + " would have been detected"
        return f"needs {self.estimate.needed(difference)}"

    def _shown(self, value: float) -> float:
        return math.tanh(value) if self.fisher else value


@dataclass(frozen=True)
class ClaimResult:
    """A claim and its contrasts."""

    letter: str
    claim: str
    source: str
    contrasts: tuple[Contrast, ...]

    @property
    def verdict(self) -> Verdict:
        """`does not hold` if one contrast does not; `holds` if all do; else what hinders a decision."""
        verdicts = {contrast.verdict for contrast in self.contrasts if contrast.counted}
        order: tuple[Verdict, ...] = ("does not hold", "cannot be judged", "not decided", "holds")
        return next((each for each in order if each in verdicts), "not decided")

    @property
    def needed(self) -> list[str]:
        """What its undecided contrasts need, without repetition."""
        found = (contrast.needed for contrast in self.contrasts if contrast.counted)
        return list(dict.fromkeys(each for each in found if each))

    def record(self) -> ClaimRecord:
        """Return plain values, with the mean, the interval and the verdict of every contrast."""
        names = [each.name for each in fields(ContrastRecord)]
        contrasts = [
            ContrastRecord(**{name: getattr(each, name) for name in names}) for each in self.contrasts
        ]
        own = (self.letter, self.claim, self.source, self.verdict)
        return ClaimRecord(*own, tuple(self.needed), tuple(contrasts))


def adjust(claims: Sequence[ClaimResult]) -> list[ClaimResult]:
    """Return the claims with Holm's correction across all contrasts that can refute one (Holm 1979): the
    probability of any false refutation is at most LEVEL where the intervals are right.

    That a claim holds needs no correction, as all its contrasts must (intersection-union test).
    """
    places = [
        (claim, index)
        for claim, result in enumerate(claims)
        for index, contrast in enumerate(result.contrasts)
        if contrast.counted and not contrast.regime and contrast.estimate is not None
    ]
    order = sorted(places, key=lambda place: claims[place[0]].contrasts[place[1]].refuting_p)
    adjusted, largest = dict[tuple[int, int], float](), 0.0
    for rank, (claim, index) in enumerate(order):
        p = claims[claim].contrasts[index].refuting_p
        largest = max(largest, min(1.0, (len(order) - rank) * p))
        adjusted[claim, index] = largest
    return [
        replace(
            result,
            contrasts=tuple(
                replace(contrast, adjusted_p=adjusted.get((number, index), 1.0))
                for index, contrast in enumerate(result.contrasts)
            ),
        )
        for number, result in enumerate(claims)
    ]
