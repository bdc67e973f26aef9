"""The result of `isopix report`: the summary of runs, with their baselines."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from isopix.core.text import Table, percent_with_interval
from isopix.storage.result import Result


@dataclass(frozen=True)
class SummaryRow:
    """A run, a `baseline` of the run above it, or a `shared` one; `loss` in nats per predicted code."""

    name: str
    kind: Literal["run", "baseline", "shared"] = "baseline"
    description: str = ""
    loss: float | None = None
    layer: int | None = None
    accuracy: float | None = None
    low: float | None = None
    high: float | None = None

    @property
    def bits(self) -> float | None:
        return None if self.loss is None else self.loss / math.log(2)


@dataclass(frozen=True)
class RunRow:
    """A run: the test loss (else validation) in nats per predicted code, the test accuracy of its probe and
    after fine-tuning, and the values of the settings in which runs differ.
    """

    name: str
    step: int
    loss: float | None
    probe: float | None
    accuracy: float | None
    settings: Mapping[str, str]


def runs_table(runs: Sequence[RunRow]) -> Table:
    """Return a row for each run, or a column for each where they differ in more settings than there are."""
    rows: list[tuple[object, ...]] = [("run", "step", "loss", "probe", "fine-tuned", *runs[0].settings)]
    for each in runs:
        accuracies = ("" if value is None else f"{value:.1%}" for value in (each.probe, each.accuracy))
        loss = "" if each.loss is None else f"{each.loss:.3f}"
        rows.append((each.name, f"{each.step:,}", loss, *accuracies, *each.settings.values()))
    if len(rows[0]) - 5 > len(runs):
        rows = list(zip(*rows, strict=True))
    return Table("Test loss in nats, test accuracy, settings that differ", list(map(str, rows[0])), rows[1:])


class ReportResult(Result):
    """An HTML page about runs; `path` is its file."""

    runs: tuple[str, ...]
    summary: tuple[SummaryRow, ...]

    def tables(self) -> list[Table]:
        columns = ["name", "network", "loss", "layer", "accuracy"]
        title = "Runs and baselines: test loss in nats, test accuracy with 95% interval"
        return [Table(title, columns, [_cells(row) for row in self.summary])] if self.summary else []


def _cells(row: SummaryRow) -> tuple[str, ...]:
    accuracy = "" if row.accuracy is None else f"{row.accuracy:.1%}"
    if row.accuracy is not None and row.low is not None and row.high is not None:
        accuracy = percent_with_interval(row.accuracy, row.low, row.high)
    return (
        f"  {row.name}" if row.kind == "baseline" else row.name,
        row.description,
        "" if row.loss is None else f"{row.loss:.3f}",
        "" if row.layer is None else str(row.layer),
        accuracy,
    )
