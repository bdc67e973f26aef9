"""Verdicts on claims that one kind of network is better than another, by contrasts with their intervals."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from isopix.studies.estimates import POWER, Estimate
from isopix.studies.results import ClaimRecord, ContrastRecord, Verdict

LEVEL = 0.05  # of all refutations of a study under one pool
ORDER: tuple[Verdict, ...] = ("does not hold", "cannot be judged", "not decided", "holds")


class Contrast(NamedTuple):
    """A contrast before it is judged; a correlation is estimated on Fisher's scale if `fisher`."""

    record: ContrastRecord
    estimate: Estimate | None
    fisher: bool = False

    @property
    def can_refute(self) -> bool:
        return self.record.counted and not self.record.regime and self.estimate is not None

    @property
    def refuting_p(self) -> float:
        """The unadjusted p of a difference on the wrong side; 1 on the right one."""
        return 1.0 if self.estimate is None or self.estimate.mean >= 0 else self.estimate.p_value()

    def judged(self, adjusted_p: float) -> ContrastRecord:
        """Return mean, 95 % interval and verdict: above zero it `holds`, by the adjusted p it does not."""
        values, estimate = self.record.values, self.estimate
        mean, interval = (sum(values) / len(values) if values else None), None
        if estimate is not None:
            center, half = estimate.mean, estimate.half_width()
            mean, *ends = (
                math.tanh(each) if self.fisher else each for each in (center, center - half, center + half)
            )
            interval = (ends[0], ends[1])
        verdict: Verdict = "does not hold" if adjusted_p < LEVEL else "not decided"
        if interval is not None and interval[0] > 0:
            verdict = "holds"
        if self.record.regime:
            verdict = "cannot be judged"
        needed = self._needed(adjusted_p) if verdict == "not decided" and self.record.counted else ""
        found: dict[str, Any] = {"mean": mean, "interval": interval, "verdict": verdict, "needed": needed}
        return replace(self.record, adjusted_p=adjusted_p, **found)

    def _needed(self, adjusted_p: float) -> str:
        """Return what would decide a difference, of `effect` or larger, with a probability of 80 %."""
        if self.estimate is None:
            return "needs 2 seeds or more" if self.record.values else "needs networks that are missing"
        if self.estimate.mean + self.estimate.half_width() < 0:
            return f"below zero, but not after Holm's correction (p = {adjusted_p:.2g})"
        difference = max(self.record.effect, abs(self.estimate.mean))
        if self.estimate.power(difference) >= POWER:
            return f"{difference:.3g} {self.record.unit}".rstrip() + " would have been detected"
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
        records = tuple(each.judged(next(adjusted) if each.can_refute else 1.0) for each in contrasts)
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
