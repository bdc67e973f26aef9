"""The result of `reproduce`, without PyTorch: a table of a paper, measured next to published."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from isopix.core.text import Table
from isopix.recipes.published import TableRow
from isopix.storage.result import Result

DECIMALS = {"nats": 4}  # by unit; 1 for all others


@dataclass(frozen=True)
class TrialState:
    """The state of a trial: `record` is the file of its numbers, `selection` what validation selected."""

    settings: dict[str, Any]
    status: Literal["not run", "done", "failed"] = "not run"
    reason: str = ""  # of a failure
    record: str = ""
    selection: dict[str, Any] | None = None


class ReproductionResult(Result):
    """A table or figure of a paper at a scale; `statement` says what the measured numbers stand for."""

    protocol: str
    experiment: str
    scale: str
    statement: str
    note: str
    units: Mapping[str, str]
    rows: tuple[TableRow, ...]
    trials: Mapping[str, TrialState]

    def tables(self) -> list[Table]:
        columns = [f"{name}, {unit}" if unit else name for name, unit in self.units.items()]
        rows = [
            [row.method, row.data, *(_text(row, name, unit) for name, unit in self.units.items()), row.source]
            for row in self.rows
        ]
        return [
            Table(f"{self.protocol}: {self.experiment}", ["method", "data", *columns, "source"], rows),
            Table(
                "Trials",
                ["trial", "status", "record", "selected on validation"],
                [(name, *_state(each)) for name, each in self.trials.items()],
            ),
        ]

    def notes(self) -> list[str]:
        return [self.statement, *filter(None, [self.note]), *super().notes()]

    @property
    def failure(self) -> str:
        left = {name: each.reason for name, each in self.trials.items() if each.status != "done"}
        reasons = "; ".join(f"{name}: {reason}" for name, reason in left.items())
        return f"failed: {reasons}; the same command retries" if left else ""


class ProtocolList(Result):
    """The titles of all protocols by name."""

    protocols: Mapping[str, str]

    def tables(self) -> list[Table]:
        return [Table("Protocols", ["name", "experiment"], list(self.protocols.items()))]


@dataclass(frozen=True)
class PlannedTrial:
    """A trial: its name, the number of its trainings, and their FLOPs."""

    name: str
    trainings: int
    training_flops: int


class ReproductionPlan(Result):
    """The trials that `reproduce` would run; `hours` are those of one A100 at `mfu` of its bf16 peak."""

    protocol: str
    trials: tuple[PlannedTrial, ...]
    hours: float
    mfu: float

    def tables(self) -> list[Table]:
        rows = [
            (each.name, f"{each.trainings}", f"{each.training_flops:.3g}" if each.training_flops else "")
            for each in self.trials
        ]
        return [Table(f"Trials of {self.protocol}", ["trial", "trainings", "training FLOPs"], rows)]

    def notes(self) -> list[str]:
        text = f"total: {self.hours:,.3g} hours of one A100 at {self.mfu:.0%} of its bf16 peak"
        return [f"{text}; searches that end early take less, probes and evaluations are not counted"]


def _text(row: TableRow, column: str, unit: str) -> str:
    """Return `68.6`, `26.8 ± 1.5`, a text, or nothing; published numbers keep all their decimals."""
    cell = row.cells.get(column)
    if cell is None or isinstance(cell.value, str):
        return "" if cell is None else str(cell.value)
    numbers = [each for each in (cell.value, cell.std) if each is not None]
    decimals = DECIMALS.get(unit, 1)
    return " ± ".join(f"{each:.{decimals}f}" if row.measured else f"{each}" for each in numbers)


def _state(trial: TrialState) -> tuple[str, str, str]:
    status = f"{trial.status}: {trial.reason}" if trial.reason else trial.status
    selection = trial.selection or {}
    chosen = ", ".join(selection.get("selected", ()))
    return status, trial.record, f"{chosen}, step {selection['step']:,}" if selection else ""
