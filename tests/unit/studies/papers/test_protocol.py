"""Every protocol fills every cell, and its trials are in an order in which they can run."""

from pathlib import Path

import pytest

from isopix.studies.papers import igpt, vit_patchformer  # noqa: F401  registers the protocols
from isopix.studies.papers.protocol import PROTOCOLS, find_protocol
from isopix.studies.papers.reproduction import Reproduction
from isopix.studies.papers.setup import Setup
from tests.unit.studies.papers.fakes import FakeVerbs


# The fake logs have no probes, and the fake evaluations no top-5 accuracy.
@pytest.mark.parametrize("scale", ["tiny", "small", "paper"])
@pytest.mark.parametrize("name", PROTOCOLS)
def test_every_cell_of_a_protocol_is_measured(name: str, scale: str, tmp_path: Path) -> None:
    setup, found = Setup(scale), find_protocol(name)
    with Reproduction.create(tmp_path / "out", setup) as reproduction:
        done = list[str]()
        for trial in found.trials(setup):
            assert {each.name for each in trial.needs} <= set(done)
            assert trial.training_flops() > 0 or not trial.trainings(), "its networks can be built"
            assert reproduction.run(trial, FakeVerbs()).status == "done"
            done.append(trial.name)
        records = reproduction.records(found.trials(setup))
    for row in found.rows(setup):
        assert set(row.cells) <= set(found.units)
        empty = {column for column, value in row.values(records).items() if value is None}
        lacking = name in ("igpt.figure3", "patchformer.table2")
        assert empty == (set(row.cells) - {"steps"} if lacking else set())
    assert all(set(row.cells) <= set(found.units) for row in found.published)


def test_an_unknown_name_suggests_the_nearest() -> None:
    with pytest.raises(ValueError, match=r"unknown protocol 'igpt.tabel4'; did you mean 'igpt.table4'\?"):
        find_protocol("igpt.tabel4")
