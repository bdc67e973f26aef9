"""Records of tested claims, and the result of `compare`, without PyTorch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import mean
from typing import Literal

from isopix.core.text import Table, count_of
from isopix.storage.result import Measurement, Result

Verdict = Literal["holds", "does not hold", "not decided", "cannot be judged"]


@dataclass(frozen=True)
class ContrastRecord:
    """A difference in `unit` that is positive if the claim is true; no `mean`: it was not measured.

    `values` are the means of each seed, `by_kind` those of each encoding and depth. `effect` is the
    difference that a study is planned to detect. `regime` says why the networks cannot show it. A contrast
    that is not `counted` decides nothing.
    """

    text: str
    unit: str
    mean: float | None = None
    interval: tuple[float, float] | None = None
    verdict: Verdict = "not decided"
    needed: str = ""
    values: tuple[float, ...] = ()
    by_kind: Mapping[str, float] = field(default_factory=dict)
    effect: float = 1.0
    regime: str = ""
    counted: bool = True
    adjusted_p: float = 1.0


@dataclass(frozen=True)
class ClaimRecord:
    """A claim, its verdict, what a decision needs, and its contrasts."""

    letter: str
    claim: str
    source: str
    verdict: Verdict
    needed: tuple[str, ...]
    contrasts: tuple[ContrastRecord, ...]


@dataclass(frozen=True, order=True)
class LabelDraw:
    """A draw of the labels: the splits by `data.seed`, and the labeled subset of train."""

    data_seed: int
    subset: int


@dataclass(frozen=True)
class Comparison:
    """The test accuracy of a group against that of a baseline, a row for each seed, a column for each draw.

    `difference` has half-widths of 95 % intervals by source of variation: `half_width` over seeds and draws,
    `half_width_new_images` over test images too.
    """

    group: str
    baseline: str
    seeds: tuple[int, ...]
    draws: tuple[LabelDraw, ...]
    num_images: int
    accuracies: tuple[tuple[float, ...], ...]
    baseline_accuracies: tuple[tuple[float, ...], ...]
    difference: Mapping[str, float | None]
    measurements: tuple[tuple[Measurement, ...], ...]
    baseline_measurements: tuple[tuple[Measurement, ...], ...]
    notes: tuple[str, ...]

    @property
    def design(self) -> str:
        draws = f"{count_of(len(self.seeds), 'seed')} x {count_of(len(self.draws), 'draw')} of the labels"
        return f"paired: {draws}, the same {self.num_images:,} test images"


class ComparisonResult(Result):
    """Paired differences of each group of runs."""

    comparisons: tuple[Comparison, ...]

    def tables(self) -> list[Table]:
        columns = ["runs", "test accuracy", "baseline", "difference (95 % CI)", "on new images"]
        rows = [
            (
                f"{each.group} - {each.baseline}",
                _percent(each.accuracies),
                _percent(each.baseline_accuracies),
                _points(each, "half_width"),
                _points(each, "half_width_new_images"),
            )
            for each in self.comparisons
        ]
        return [Table("Paired differences of test accuracy, in points", columns, rows)]

    def notes(self) -> list[str]:
        lines = [line for each in self.comparisons for line in (each.design, *each.notes)]
        return [*lines, *super().notes()]


def _percent(accuracies: Sequence[Sequence[float]]) -> str:
    return f"{mean(value for row in accuracies for value in row):.1%}"


def _points(comparison: Comparison, width: str) -> str:
    half, center = comparison.difference[width], comparison.difference["mean"]
    return "" if half is None or center is None else f"{100 * center:+.1f} ± {100 * half:.1f}"
