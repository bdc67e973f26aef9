"""The results of `compare` and `reproduce`, without PyTorch: paired differences, and tables of papers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import mean
from typing import Any, Literal

from isopix.core.text import Table, count_of, format_duration
from isopix.recipes.published import TableRow
from isopix.storage.result import Measurement, Result


@dataclass(frozen=True, order=True)
class LabelDraw:
    """A draw of the labels: the splits by `data.seed`, and the labeled subset of train."""

    data_seed: int
    subset: int


class ComparisonResult(Result):
    """The test accuracy of runs and of a baseline, a row for each seed, a column for each draw of the labels.

    `difference` has half-widths of 95% intervals by source of variation: `half_width` over seeds and draws,
    `half_width_new_images` over test images too. `settings` are those that differ.
    """

    seeds: tuple[int, ...]
    draws: tuple[LabelDraw, ...]
    num_images: int
    accuracies: tuple[tuple[float, ...], ...]
    baseline_accuracies: tuple[tuple[float, ...], ...]
    difference: Mapping[str, float | None]
    settings: Mapping[str, tuple[str, ...]]
    measurements: tuple[tuple[Measurement, ...], ...]
    baseline_measurements: tuple[tuple[Measurement, ...], ...]

    def tables(self) -> list[Table]:
        draws = f"{count_of(len(self.seeds), 'seed')} x {count_of(len(self.draws), 'draw')} of the labels"
        caption = f"Test accuracy, paired: {draws}, the same {count_of(self.num_images, 'test image')}"
        columns = ["runs", "baseline", "difference, points (95% CI)", "on new images"]
        accuracies = map(_percent, (self.accuracies, self.baseline_accuracies))
        row = (*accuracies, self._points("half_width"), self._points("half_width_new_images"))
        return [Table(caption, columns, [row]), *_settings_table(self.settings, ("runs", "baseline"))]

    def _points(self, width: str) -> str:
        half, center = self.difference[width], self.difference["mean"]
        return "" if half is None or center is None else f"{100 * center:+.1f} ± {100 * half:.1f}"


@dataclass(frozen=True)
class PairedNumber:
    """A number of two runs on the same images; `half_width` is of the 95% interval of their difference.

    Of an accuracy, `only` counts the images that the first or the second run alone classifies correctly, and
    `p` is that of McNemar's exact test; None for groups of images, which are not independent.
    """

    name: str
    num_images: int
    first: float
    second: float
    half_width: float | None
    only: tuple[int, int] | None = None
    p: float | None = None

    @property
    def difference(self) -> float:
        return self.first - self.second

    @property
    def row(self) -> tuple[str, ...]:
        scale, digits = (1, 4) if self.only is None else (100, 1)
        pair = (f"{scale * each:.{digits}f}" for each in (self.first, self.second))
        half = "" if self.half_width is None else f" ± {scale * self.half_width:.{digits}f}"
        difference = f"{scale * self.difference:+.{digits}f}{half}".replace("-", "\N{MINUS SIGN}")
        alone = " and ".join(f"{each:,}" for each in self.only or ())
        p = "" if self.p is None else f"{self.p:.2g}"
        return self.name, f"{self.num_images:,}", *pair, difference, alone, p


class RunComparison(Result):
    """What two runs can both be measured for on the same test images, and the settings that differ."""

    runs: tuple[str, str]
    data: str
    num_images: int
    numbers: tuple[PairedNumber, ...]
    settings: Mapping[str, tuple[str, ...]]
    measurements: tuple[Measurement, ...]

    def tables(self) -> list[Table]:
        columns = ["", "images", *self.runs, "difference (95% CI)", "correct by one alone", "McNemar's p"]
        images = f"{count_of(self.num_images, 'test image')} of {self.data}"
        return [
            Table(images, columns, [each.row for each in self.numbers]),
            *_settings_table(self.settings, self.runs),
        ]


def _percent(accuracies: Sequence[Sequence[float]]) -> str:
    return f"{mean(value for row in accuracies for value in row):.1%}"


def _settings_table(settings: Mapping[str, Sequence[str]], names: Sequence[str]) -> list[Table]:
    rows = [(name, *values) for name, values in settings.items()]
    return [Table("Settings that differ", ["setting", *names], rows)] if rows else []


@dataclass(frozen=True)
class TrialOutcome:
    """The status of a trial of a study, and its environment."""

    status: Literal["not run", "done", "failed"] = "not run"
    reason: str = ""  # of a failure
    traceback: str = ""
    environment: dict[str, Any] = field(default_factory=dict, kw_only=True)

    @property
    def text(self) -> str:
        """The outcome in a line."""
        return f"{self.status}: {self.reason}"


class TrialsResult(Result):
    """The base of results of studies: facts about them, and all trials."""

    facts: Mapping[str, str]
    trials: Mapping[str, TrialOutcome]

    def facts_table(self) -> Table:
        return Table("Study", ["", ""], list(self.facts.items()))

    @property
    def failure(self) -> str:
        failed = [f"{name}: {each.reason}" for name, each in self.trials.items() if each.status == "failed"]
        count = f"{len(failed)} of {len(self.trials)} trials failed; the same command retries them"
        return f"{count}; {failed[0]}" if failed else ""


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
        units = self.units.items()
        rows = [
            [row.method, row.data, *(cell_text(row, name, unit) for name, unit in units), row.source]
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


@dataclass(frozen=True)
class PlannedTrial:
    """A trial: its name, the number of its trainings, and their FLOPs."""

    name: str
    trainings: int
    training_flops: int


class ReproductionPlan(Result):
    """The trials that `reproduce` would run, and hours of training at `mfu` of the peak of a device: `hours`
    on one A100 in bf16, `device_hours` on the `device` of this machine, if anything is trained.
    """

    protocol: str
    trials: tuple[PlannedTrial, ...]
    hours: float
    device: str
    device_hours: float
    mfu: float

    def tables(self) -> list[Table]:
        rows = [
            (each.name, f"{each.trainings}", f"{each.training_flops:.3g}" if each.training_flops else "")
            for each in self.trials
        ]
        return [Table(f"Trials of {self.protocol}", ["trial", "trainings", "training FLOPs"], rows)]

    def notes(self) -> list[str]:
        here, fast = (format_duration(3600 * each) for each in (self.device_hours, self.hours))
        text = f"total, at {self.mfu:.0%} of the peak: {here} on {self.device}, {fast} on one A100"
        return [f"{text}; searches that end early take less, probes and evaluations are not counted"]


def cell_text(row: TableRow, column: str, unit: str) -> str:
    """Return `68.6`, `26.8 ± 1.5`, a text, or nothing; published numbers keep all their decimals."""
    cell = row.cells.get(column)
    if cell is None or isinstance(cell.value, str):
        return "" if cell is None else str(cell.value)
    numbers = [each for each in (cell.value, cell.std) if each is not None]
    decimals = 4 if unit == "nats" else 1
    return " ± ".join(f"{each:.{decimals}f}" if row.measured else f"{each}" for each in numbers)


def _state(trial: TrialState) -> tuple[str, str, str]:
    status = f"{trial.status}: {trial.reason}" if trial.reason else trial.status
    selection = trial.selection or {}
    chosen = ", ".join(selection.get("selected", ()))
    return status, trial.record, f"{chosen}, step {selection['step']:,}" if selection else ""
