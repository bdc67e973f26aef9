"""A table says where its numbers stand."""

from pathlib import Path

from isopix.studies.protocols import igpt  # noqa: F401  registers them
from isopix.studies.protocols.write_up import ProtocolTable, format_cell

from isopix.studies.papers.protocol import find_protocol
from isopix.studies.papers.reproduction import Reproduction
from isopix.studies.papers.setup import Setup
from isopix.studies.papers.write_up import write_table
from tests.unit.studies.protocols.fakes import FakeCommands


def table(path: Path, setup: Setup) -> ProtocolTable:
    found = find_protocol("igpt.table4")
    with Reproduction.create(path, setup) as reproduction:
        for trial in found.trials(setup):
            reproduction.run(trial, FakeCommands())
        return write_table(found, reproduction)


def test_a_measured_row_names_its_scale_model_and_data(tmp_path: Path) -> None:
    found = table(tmp_path / "out", Setup(settings=("steps=7",)))
    rows = {row[0]: row for row in found.rows}
    assert rows["iGPT-L"][:5] == ["iGPT-L", "cifar10", "26.8 ± 1.5", "12.4 ± 0.6", "5.7 ± 0.1"]
    assert rows["iGPT-L, scale tiny"][:5] == [
        *("iGPT-L, scale tiny", "translated-digits", "10.0 ± 1.0", "10.0 ± 1.0", "10.0 ± 1.0"),
    ]
    assert "7 steps of 64 images of translated-digits" in rows["iGPT-L, scale tiny"][-2]
    assert rows["iGPT-L, fine-tuned, scale tiny"][3:5] == ["", ""]
    assert "not a reproduction of the published numbers" in found.record["statement"]
    text = (tmp_path / "out" / "igpt.table4" / "table.md").read_text()
    assert "| Mean Teacher | cifar10 |  | 32.3 ± 2.3 | 9.2 ± 0.2 |" in text
    assert "not a reproduction" in text
    assert "not a reproduction" in found.page.read_text()


def test_the_published_settings_are_said_to_be_so(tmp_path: Path) -> None:
    found = table(tmp_path / "out", Setup("paper"))
    assert "not a reproduction" not in found.record["statement"]
    assert [row[0] for row in found.rows].count("iGPT-L") == 2


def test_published_numbers_keep_their_decimals() -> None:
    assert format_cell({"value": 64.03, "std": None}, "%", measured=False) == "64.03"
    assert format_cell({"value": 64.03, "std": None}, "%", measured=True) == "64.0"
    assert format_cell({"value": 2.08951, "std": None}, "nats", measured=True) == "2.0895"
    assert format_cell(None, "%", measured=True) == ""
