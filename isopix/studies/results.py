"""Records of tested claims, without PyTorch."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Verdict = Literal["holds", "does not hold", "not decided", "cannot be judged"]


@dataclass(frozen=True)
class ContrastRecord:
    """A difference in `unit` that is positive if the claim is true, as `Contrast` in `studies/claims.py`."""

    text: str
    unit: str
    mean: float | None
    interval: tuple[float, float] | None
    verdict: Verdict
    needed: str
    values: tuple[float, ...]
    by_kind: Mapping[str, float]
    effect: float
    regime: str
    counted: bool
    adjusted_p: float


@dataclass(frozen=True)
class ClaimRecord:
    """A claim, its verdict, what a decision needs, and its contrasts."""

    letter: str
    claim: str
    source: str
    verdict: Verdict
    needed: tuple[str, ...]
    contrasts: tuple[ContrastRecord, ...]
