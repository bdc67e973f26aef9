"""Reproduction: the trials of protocols in a folder, run once each and resumed, and the tables of them."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from isopix.core.config import from_dict, to_dict
from isopix.core.signals import Interrupted
from isopix.core.text import printable_lines
from isopix.recipes.published import TableRow
from isopix.reporting.section import PageFigure, write_page
from isopix.runs.resume import check_same_settings, folder_of_runs
from isopix.storage.atomic import read_json, replace_file, write_json
from isopix.studies.papers.protocol import MeasuredRow, PaperProtocol, Records, Setup
from isopix.studies.papers.trials import Pretrain, ProtocolTrial, RunVerb
from isopix.studies.results import ReproductionResult, TrialState


class Reproduction:
    """A folder with the run folders and the states of trials, all of one setup."""

    def __init__(self, path: Path, setup: Setup):
        self.path, self.setup = path, setup

    @classmethod
    @contextmanager
    def create(cls, path: Path, setup: Setup) -> Iterator["Reproduction"]:
        """Create or open the folder, for one process at a time."""
        path = path.resolve()
        with folder_of_runs(path, to_dict(setup), "reproduction"):
            for folder in ("runs", "trials"):
                (path / folder).mkdir(exist_ok=True)
            yield cls(path, setup)

    def state(self, trial: ProtocolTrial) -> TrialState:
        file = self._file(trial)
        if not file.is_file():
            return TrialState(to_dict(trial))
        values = read_json(file)
        del values["kind"]
        state = from_dict(TrialState, values)
        check_same_settings(f"trial {trial.name} in {self.path}", state.settings, to_dict(trial))
        if state.status == "done" and not (self.path / state.record).exists():
            return replace(state, status="not run", record="")
        return state

    def run(self, trial: ProtocolTrial, run_verb: RunVerb) -> TrialState:
        """Run a trial unless it is done, and return its state; a failure is recorded and not raised."""
        state = self.state(trial)
        if state.status == "done":
            return state
        for each in trial.needs:
            if self.state(each).status != "done":
                return self._write(trial, replace(state, status="failed", reason=f"{each.name} is not done"))
        self._write(trial, state)
        try:
            record, selection = trial.run(run_verb, self.path / "runs")
        except (ValueError, RuntimeError) as error:
            reason = str(error).strip().partition("\n")[0] or type(error).__name__
            return self._write(trial, replace(state, status="failed", reason=reason))
        record = record.resolve()
        if record.is_relative_to(self.path):
            record = record.relative_to(self.path)  # so that the folder can be moved
        return self._write(trial, TrialState(state.settings, "done", "", str(record), selection))

    def records(self, trials: Sequence[ProtocolTrial]) -> Records:
        """Return the results of the trials that are done, by name, from their run folders."""
        states = [(trial, self.state(trial)) for trial in trials]
        done = [(trial, state) for trial, state in states if state.status == "done"]
        return {trial.name: trial.read(self.path / state.record) for trial, state in done}

    def _file(self, trial: ProtocolTrial) -> Path:
        return self.path / "trials" / f"{trial.name}.json"

    def _write(self, trial: ProtocolTrial, state: TrialState) -> TrialState:
        write_json(self._file(trial), {"kind": "protocol trial", **to_dict(state)})
        return state


def run_protocol(protocol: PaperProtocol, setup: Setup, out: Path, run_verb: RunVerb) -> ReproductionResult:
    """Run the trials that are not done, and write the table. Interrupted if asked to stop."""
    trials = protocol.trials(setup)
    with Reproduction.create(out, setup) as reproduction:
        for trial in trials:
            reproduction.state(trial)  # raises ValueError before anything is trained
        try:
            for trial in trials:
                reproduction.run(trial, run_verb)
        except Interrupted:
            text = f"stopped and saved: {out}; the same command resumes"
            result = replace(write_table(protocol, reproduction), warnings=(text,))
            raise Interrupted(text, result) from None
        return write_table(protocol, reproduction)


def write_table(protocol: PaperProtocol, reproduction: Reproduction) -> ReproductionResult:
    """Write the table, and the figure if there is one, from finished trials."""
    setup, rows = reproduction.setup, list(protocol.rows(reproduction.setup))
    trials = {trial.name: trial for row in rows for trial in row.trials()}
    records = reproduction.records(list(trials.values()))
    folder = reproduction.path / protocol.name
    folder.mkdir(exist_ok=True)
    page = folder / "report.html"
    published = [
        replace(row, source=f"published ({row.source})" if row.source else "published")
        for row in protocol.published
    ]
    result = ReproductionResult(
        protocol=protocol.name,
        experiment=protocol.title,
        scale=setup.scale,
        statement=_statement(setup, rows),
        note=protocol.note,
        units=protocol.units,
        rows=(*published, *(_measured(row, records, setup.scale) for row in rows)),
        trials={name: reproduction.state(trial) for name, trial in trials.items()},
    ).saved(page)
    markdown = "\n\n".join([result.tables()[0].markdown(), result.statement, result.note])
    replace_file(folder / "table.md", printable_lines(f"{markdown}\n").encode())
    drawn = protocol.draw(rows, records) if protocol.draw else None
    numbers = {row.method: {name: cell.value for name, cell in row.cells.items()} for row in result.rows}
    figures = [PageFigure("figure", drawn[1], drawn[0], numbers)] if drawn else []
    title = f"{protocol.name}: {protocol.title}"
    write_page(page, result, figures, title="measured and published", headline=title, lead=result.statement)
    return result


def _statement(setup: Setup, rows: Sequence[MeasuredRow]) -> str:
    models = "; ".join(dict.fromkeys(f"{row.network.name}: {_model(row.network)}" for row in rows))
    text = f"Measured rows are of scale {setup.scale} ({models})."
    if setup.scale == "paper" and not (setup.settings or setup.data or setup.pretrain_data):
        return text
    return (
        f"{text} They are not a reproduction of the published numbers, which are of other models, training "
        "or data; compare them with each other."
    )


def _model(network: Pretrain) -> str:
    recipe = network.recipe
    model, data, train = recipe.model, recipe.data, recipe.train
    text = f"{recipe.name}, depth {model.depth}, width {model.width}, {data.rows}×{data.cols} pixels, "
    if network.given is not None:
        return f"{text}the run {network.given}"
    return f"{text}{train.steps:,} steps of {train.batch_size} images of {Path(data.source).name}"


def _measured(row: MeasuredRow, records: Records, scale: str) -> TableRow:
    return TableRow(
        row.method if scale == "paper" else f"{row.method}, scale {scale}",
        Path(row.data).name,
        {name: value for name, value in row.values(records).items() if value is not None},
        f"measured, scale {scale}",
        measured=True,
        model=_model(row.network),
    )
