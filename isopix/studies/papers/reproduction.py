"""Reproduction: the trials of one or several protocols in a folder, run once each and resumed."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from isopix.core.config import from_dict, to_dict
from isopix.runs.resume import check_same_settings, folder_of_runs
from isopix.storage.atomic import read_json, write_json
from isopix.studies.papers.results import TrialState
from isopix.studies.papers.setup import Setup
from isopix.studies.papers.trials import Commands, ProtocolTrial


class Reproduction:
    """A folder with the run folders and the states of trials, all of one setup."""

    def __init__(self, path: Path, setup: Setup):
        self.path, self.setup = path, setup

    @classmethod
    @contextmanager
    def create(cls, path: Path, setup: Setup) -> Iterator["Reproduction"]:
        """Create or open the folder, for one process at a time.

        Raises ValueError for a folder of something else or with another setup, and one in use.
        """
        path = path.resolve()
        with folder_of_runs(path, to_dict(setup), "reproduction"):
            for folder in ("runs", "trials"):
                (path / folder).mkdir(exist_ok=True)
            yield cls(path, setup)

    @property
    def runs(self) -> Path:
        """The run folders of all trials."""
        return self.path / "runs"

    def state(self, trial: ProtocolTrial) -> TrialState:
        """Return the state of a trial. Raises ValueError if it was started with other settings."""
        file = self._file(trial)
        if not file.is_file():
            return TrialState(to_dict(trial))
        values = {name: each for name, each in read_json(file).items() if name != "kind"}
        state = from_dict(TrialState, values)
        check_same_settings(f"trial {trial.name} in {self.path}", state.settings, to_dict(trial))
        if state.status == "done" and not (self.path / state.record).exists():
            return replace(state, status="not run", record="")
        return state

    def run(self, trial: ProtocolTrial, commands: Commands) -> TrialState:
        """Run a trial unless it is done, and return its state; a failure is recorded and not raised.

        Raises KeyboardInterrupt if it was asked to stop; called again, it continues.
        """
        state = self.state(trial)
        if state.status == "done":
            return state
        failed = [each.name for each in trial.needs if self.state(each).status != "done"]
        if failed:
            return self._write(trial, replace(state, status="failed", reason=f"{failed[0]} is not done"))
        self._write(trial, state)
        try:
            outcome = trial.run(commands, self.runs)
        except (ValueError, RuntimeError) as error:
            reason = str(error).strip().partition("\n")[0] or type(error).__name__
            return self._write(trial, replace(state, status="failed", reason=reason))
        selection = None if outcome.selection is None else dict(outcome.selection)
        record = str(outcome.record)
        return self._write(trial, TrialState(state.settings, "done", "", self._relative(record), selection))

    def records(self, trials: Sequence[ProtocolTrial]) -> dict[str, Mapping[str, Any]]:
        """Return the numbers of the trials that are done, by name, from their run folders."""
        states = [(trial, self.state(trial)) for trial in trials]
        done = [(trial, state) for trial, state in states if state.status == "done"]
        return {trial.name: trial.read(self.path / state.record) for trial, state in done}

    def _file(self, trial: ProtocolTrial) -> Path:
        return self.path / "trials" / f"{trial.name}.json"

    def _relative(self, record: str) -> str:
        """A path inside the folder relative to it, so that the folder can be moved."""
        path = Path(record).resolve()
        return str(path.relative_to(self.path)) if path.is_relative_to(self.path) else str(path)

    def _write(self, trial: ProtocolTrial, state: TrialState) -> TrialState:
        write_json(self._file(trial), {"kind": "protocol trial", **to_dict(state)})
        return state
