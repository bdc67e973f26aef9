"""A folder of trials continues where it was stopped, and refuses another setup."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from isopix.studies.protocols import igpt  # noqa: F401  registers them

from isopix.studies.papers.protocol import find_protocol
from isopix.studies.papers.reproduction import Reproduction
from isopix.studies.papers.setup import Setup
from isopix.studies.papers.write_up import write_table
from tests.unit.studies.protocols.fakes import FakeCommands

TABLE, SETUP = find_protocol("igpt.table1"), Setup()


class Killed(FakeCommands):
    def probe(self, run: Path, data: str | None, options: Mapping[str, Any]) -> Path:
        raise KeyboardInterrupt


class Failing(FakeCommands):
    def probe(self, run: Path, data: str | None, options: Mapping[str, Any]) -> Path:
        raise RuntimeError("out of memory\nhere")


def run_all(path: Path, commands: FakeCommands) -> list[str]:
    with Reproduction.create(path, SETUP) as found:
        return [found.run(trial, commands).status for trial in TABLE.trials(SETUP)]


def measured(path: Path) -> list[Any]:
    with Reproduction.create(path, SETUP) as found:
        rows = write_table(TABLE, found).record["rows"]
    return [row["cells"]["accuracy"] for row in rows if row["measured"]]


def test_after_a_kill_finished_trials_are_not_repeated(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        run_all(tmp_path / "out", Killed())
    assert measured(tmp_path / "out") == [None]
    commands = FakeCommands()
    assert run_all(tmp_path / "out", commands) == ["done", "done"]
    assert [name for name, _, _ in commands.calls] == ["probe"]
    assert measured(tmp_path / "out") == [{"value": 30.0, "std": None}]


def test_a_failure_leaves_its_cell_empty_and_is_tried_again(tmp_path: Path) -> None:
    assert run_all(tmp_path / "out", Failing()) == ["done", "failed"]
    assert measured(tmp_path / "out") == [None]
    assert run_all(tmp_path / "out", FakeCommands()) == ["done", "done"]
    assert measured(tmp_path / "out") == [{"value": 30.0, "std": None}]


def test_numbers_come_from_the_run_folder(tmp_path: Path) -> None:
    """A deleted record is measured again; until then its cell is empty."""
    run_all(tmp_path / "out", FakeCommands())
    (record,) = (tmp_path / "out").glob("runs/*/probes/*.json")
    record.unlink()
    assert measured(tmp_path / "out") == [None]
    commands = FakeCommands()
    run_all(tmp_path / "out", commands)
    assert [name for name, _, _ in commands.calls] == ["probe"]


def test_another_setup_is_refused(tmp_path: Path) -> None:
    run_all(tmp_path / "out", FakeCommands())
    for other, message in (
        (Setup(settings=("steps=3",)), "settings"),
        (Setup(scale="small"), "scale=tiny, not small"),
    ):
        with pytest.raises(ValueError, match=message), Reproduction.create(tmp_path / "out", other):
            pass
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "a.png").touch()
    with (
        pytest.raises(ValueError, match="not empty and has no protocols"),
        Reproduction.create(tmp_path / "photos", SETUP),
    ):
        pass
