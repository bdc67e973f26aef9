"""Verdicts on claims that one kind of network is better than another, by contrasts with their intervals."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from isopix.studies.estimates import POWER, Estimate
from isopix.studies.results import ClaimRecord, ContrastRecord, Verdict

LEVEL = 0.05  # of all refutations of a study under one pool
ORDER: tuple[Verdict, ...] = ("does not hold", "cannot be judged", "not decided", "holds")


@dataclass(frozen=True)
class Contrast:
    """A difference in `unit` that is positive if the claim is true; `estimate` None: not measured.

    `values` are the means of each seed, `by_kind` those of each encoding and depth. `effect` is the
    difference that a study is planned to detect. `regime` says why the networks cannot show it. A contrast
    that is not `counted` decides nothing. A correlation is estimated on Fisher's scale if `fisher`.
    """

    text: str
    unit: str
    estimate: Estimate | None
    values: tuple[float, ...] = ()
    by_kind: Mapping[str, float] = field(default_factory=dict)
    effect: float = 1.0
    regime: str = ""
    counted: bool = True
    fisher: bool = False

    @property
    def can_refute(self) -> bool:
        return self.counted and not self.regime and self.estimate is not None

    @property
    def refuting_p(self) -> float:
        """The unadjusted p of a difference on the wrong side; 1 on the right one."""
        return 1.0 if self.estimate is None or self.estimate.mean >= 0 else self.estimate.p_value()

    def record(self, adjusted_p: float) -> ContrastRecord:
        """Return mean, 95 % interval and verdict: above zero it `holds`, by the adjusted p it does not."""
        mean, interval = (sum(self.values) / len(self.values) if self.values else None), None
        if self.estimate is not None:
            center, half = self.estimate.mean, self.estimate.half_width()
            mean, *ends = (
                math.tanh(each) if self.fisher else each for each in (center, center - half, center + half)
            )
            interval = (ends[0], ends[1])
        verdict: Verdict = "does not hold" if adjusted_p < LEVEL else "not decided"
        if interval is not None and interval[0] > 0:
            verdict = "holds"
        if self.regime:
            verdict = "cannot be judged"
        return ContrastRecord(
            text=self.text,
            unit=self.unit,
            mean=mean,
            interval=interval,
            verdict=verdict,
            needed=self._needed(adjusted_p) if verdict == "not decided" and self.counted else "",
            values=self.values,
            by_kind=self.by_kind,
            effect=self.effect,
            regime=self.regime,
            counted=self.counted,
            adjusted_p=adjusted_p,
        )

    def _needed(self, adjusted_p: float) -> str:
        """Return what would decide a difference, of `effect` or larger, with a probability of 80 %."""
        if self.estimate is None:
            return "needs 2 seeds or more" if self.values else "needs networks that are missing"
        if self.estimate.mean + self.estimate.half_width() < 0:
            return f"below zero, but not after Holm's correction (p = {adjusted_p:.2g})"
        difference = max(self.effect, abs(self.estimate.mean))
        if self.estimate.power(difference) >= POWER:
            return f"{difference:.3g} {self.unit}".rstrip() + " would have been detected"
        return f"needs {self.estimate.needed(difference)}"


def judge(claims: Sequence[tuple[str, str, str, Sequence[Contrast]]]) -> list[ClaimRecord]:
    """Return the verdicts on claims, given by letter, text, source and contrasts.

    A claim `holds` if all contrasts do (intersection-union test, which needs no correction). The p of all
    that can refute one are adjusted together: the probability of any false refutation is at most LEVEL.
    """
    adjusted = iter(
        holm([each.refuting_p for *_, contrasts in claims for each in contrasts if each.can_refute])
    )
    found = []
    for letter, text, source, contrasts in claims:
        records = tuple(each.record(next(adjusted) if each.can_refute else 1.0) for each in contrasts)
        verdicts = {each.verdict for each in records if each.counted}
        verdict: Verdict = next((each for each in ORDER if each in verdicts), "not decided")
        needed = dict.fromkeys(each.needed for each in records if each.needed)
        found.append(ClaimRecord(letter, text, source, verdict, tuple(needed), records))
    return found


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values adjusted for all of them (Holm 1979)."""
    order = np.argsort(p_values, kind="stable")
    stepped = np.arange(len(order), 0, -1) * np.array(p_values)[order]
    adjusted = np.empty(len(order))
    adjusted[order] = np.maximum.accumulate(stepped.clip(max=1))
    return adjusted.tolist()
