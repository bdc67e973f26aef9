"""The result of `isopix analyze`: the numbers of each analysis, and what it shows of them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from isopix.core.table import Table
from isopix.storage.result import Result


@dataclass(frozen=True)
class SummaryTable:
    """The main numbers of an analysis as a table, with a note below it."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""


class AnalysisResult(Result):
    """Numbers of each analysis by name, with those that an earlier call has saved; `shown` are summaries of
    this call. `not_applicable` says why others do not apply to the network.
    """

    analyses: Mapping[str, Mapping[str, Any]]
    shown: tuple[SummaryTable, ...]
    not_applicable: Mapping[str, str]

    def tables(self) -> list[Table]:
        """Return the summaries of this call."""
        return [Table(each.title, each.columns, each.rows) for each in self.shown]

    def figures(self) -> Iterator[tuple[str, Any]]:
        """Yield the figure of each analysis that is registered."""
        from isopix.analysis.run import registered_analyses  # noqa: PLC0415

        registered = registered_analyses()
        for name, numbers in self.analyses.items():
            if analysis := registered.get(name):
                yield f"{analysis.caption(numbers)} Step {numbers['step']:,}.", analysis.figure(numbers)

    def notes(self) -> list[str]:
        """Return the notes of the summaries, and the analyses that do not apply."""
        notes = [each.note for each in self.shown if each.note]
        absent = [f"{name} does not apply: {reason}" for name, reason in self.not_applicable.items()]
        return [*notes, *absent, *super().notes()]
