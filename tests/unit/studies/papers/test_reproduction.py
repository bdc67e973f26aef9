"""A folder of trials continues where it was stopped, and refuses another setup."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from isopix.studies.papers import igpt  # noqa: F401  registers its protocols
from isopix.studies.papers.protocol import find_protocol
from isopix.studies.papers.reproduction import Reproduction, write_table
from isopix.studies.papers.results import ReproductionResult, TableCell, TableRow
from isopix.studies.papers.setup import Setup
from tests.unit.studies.papers.fakes import FakeVerbs

TABLE, SETUP = find_protocol("igpt.table1"), Setup()


def run_all(path: Path, commands: FakeVerbs) -> list[str]:
    with Reproduction.create(path, SETUP) as found:
        return [found.run(trial, commands).status for trial in TABLE.trials(SETUP)]


def measured(path: Path) -> list[Any]:
    with Reproduction.create(path, SETUP) as found:
        result = write_table(TABLE, found)
    assert ReproductionResult.read(result.path) == result
    return [row.text("accuracy", "%") for row in result.rows if row.measured]


def test_after_a_kill_finished_trials_are_not_repeated(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        run_all(tmp_path / "out", FakeVerbs(probe=KeyboardInterrupt()))
    assert measured(tmp_path / "out") == [""]
    commands = FakeVerbs()
    assert run_all(tmp_path / "out", commands) == ["done", "done"]
    assert [name for name, _, _ in commands.calls] == ["probe"]
    assert measured(tmp_path / "out") == ["30.0"]


def test_a_failure_leaves_its_cell_empty_and_is_tried_again(tmp_path: Path) -> None:
    failing = FakeVerbs(probe=RuntimeError("out of memory\nhere"))
    assert run_all(tmp_path / "out", failing) == ["done", "failed"]
    assert measured(tmp_path / "out") == [""]
    with Reproduction.create(tmp_path / "out", SETUP) as found:
        failure = write_table(TABLE, found).failure
    assert failure.startswith("failed: probe-igpt-l-translated-digits")
    assert run_all(tmp_path / "out", FakeVerbs()) == ["done", "done"]
    assert measured(tmp_path / "out") == ["30.0"]


def test_numbers_come_from_the_run_folder(tmp_path: Path) -> None:
    """A deleted record is measured again; until then its cell is empty."""
    run_all(tmp_path / "out", FakeVerbs())
    (record,) = (tmp_path / "out").glob("runs/*/probe/*.json")
    record.unlink()
    assert measured(tmp_path / "out") == [""]
    commands = FakeVerbs()
    run_all(tmp_path / "out", commands)
    assert [name for name, _, _ in commands.calls] == ["probe"]


def test_another_setup_is_refused(tmp_path: Path) -> None:
    run_all(tmp_path / "out", FakeVerbs())
    for other, message in (
        (Setup(settings=("steps=3",)), "settings"),
        (Setup(scale="small"), "scale=tiny, not small"),
    ):
        with pytest.raises(ValueError, match=message), Reproduction.create(tmp_path / "out", other):
            pass


def table(path: Path, setup: Setup) -> ReproductionResult:
    found = find_protocol("igpt.table4")
    with Reproduction.create(path, setup) as reproduction:
        for trial in found.trials(setup):
            reproduction.run(trial, FakeVerbs())
        return write_table(found, reproduction)


def test_a_measured_row_names_its_scale_model_and_data(tmp_path: Path) -> None:
    found = table(tmp_path / "out", Setup(settings=("steps=7",)))
    rows = {str(row[0]): list(row) for row in found.tables()[0].rows}
    assert rows["iGPT-L"][:5] == ["iGPT-L", "cifar10", "26.8 ± 1.5", "12.4 ± 0.6", "5.7 ± 0.1"]
    assert rows["iGPT-L, scale tiny"][1:5] == ["translated-digits", *["10.0 ± 1.0"] * 3]
    assert rows["iGPT-L, fine-tuned, scale tiny"][3:5] == ["", ""]
    assert "7 steps of 64 images of translated-digits" in found.rows[-1].model
    text = (tmp_path / "out" / "igpt.table4" / "table.md").read_text()
    assert "| Mean Teacher | cifar10 |  | 32.3 ± 2.3 | 9.2 ± 0.2 |" in text
    for shown in (found.statement, text, found.path.read_text()):
        assert "not a reproduction of the published numbers" in shown
    published = table(tmp_path / "paper", Setup("paper"))
    assert "not a reproduction" not in published.statement
    assert [row.method for row in published.rows].count("iGPT-L") == 2


def test_published_numbers_keep_their_decimals() -> None:
    row = TableRow("", "", "", {"x": TableCell(2.08951)})
    assert (row.text("x", "nats"), replace(row, measured=True).text("x", "nats")) == ("2.08951", "2.0895")
    assert replace(row, measured=True).text("x", "%") == "2.1"
