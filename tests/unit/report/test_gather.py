"""What is in a run folder is read; what is damaged is named."""

from pathlib import Path

import pytest

from isopix.report.gather import gather
from tests.unit.report.cases import GREYS, bare, drawing, whole


def test_a_whole_run_is_read(tmp_path: Path) -> None:
    run = gather(whole(tmp_path / "run"))
    assert run.weights is not None
    assert (run.weights.step, run.weights.parameters) == (100, 12)
    assert run.weights.colours is not None
    assert run.weights.colours[:, 0].tolist() == [15.0 * level for level in range(GREYS)]
    assert [each.facts["kind"] for each in run.drawings] == ["completions", "samples"]
    assert len(run.probes) == 1
    assert not run.unreadable


def test_a_run_that_has_just_begun_is_read(tmp_path: Path) -> None:
    run = gather(bare(tmp_path / "run"))
    assert (run.environment, run.records, run.weights, run.drawings, run.probes) == ({}, [], None, [], [])
    assert not run.unreadable


def test_drawings_come_in_the_order_of_their_steps(tmp_path: Path) -> None:
    run = bare(tmp_path / "run")
    for step in (100, 20):
        drawing(run, "samples", step)
    assert [each.facts["step"] for each in gather(run).drawings] == [20, 100]


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("environment.json", "{"),
        ("log.jsonl", "no record\n"),
        ("probes/probe.json", '{"network": {"layers": []}, "controls": {}}'),
        ("probes/probe.json", "[1]"),
        ("samples/samples-100.json", "{"),
        ("samples/samples-100.png", "no picture"),
        ("checkpoints/step-00000100/model.safetensors", "short"),
    ],
)
def test_a_damaged_file_is_named_and_the_rest_is_read(tmp_path: Path, file: str, text: str) -> None:
    run = whole(tmp_path / "run")
    (run.path / file).write_text(text)
    found = gather(run)
    (line,) = found.unreadable
    assert Path(file).stem in line or "checkpoints" in line
    assert found.recipe["name"] == "igpt.digits"


def test_a_run_without_a_readable_recipe_is_refused(tmp_path: Path) -> None:
    run = bare(tmp_path / "run")
    run.recipe.write_text("{")
    with pytest.raises(ValueError, match=r"recipe\.json cannot be read"):
        gather(run)
