"""What is in a run folder is read; what is damaged is named."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from isopix.probe.config import ProbeConfig
from isopix.probe.knn import KnnProbe
from isopix.probe.linear import RidgeProbe
from isopix.probe.sgd import SgdProbe
from isopix.report.load_run import as_paper, gather
from isopix.report.probes import aside
from isopix.storage.run_folder import RunFolder
from tests.unit.report.cases import GREYS, bare, drawing, evidence, probe, whole


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
        ("probes/probe.json", '{"network": {"layers": []}, "baselines": {}}'),
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


@pytest.mark.parametrize(("bad", "told"), [([3], "line 3 is"), ([3, 5], "2 lines, first 3, are")])
def test_bad_lines_of_the_log_cost_those_lines_alone(tmp_path: Path, bad: list[int], told: str) -> None:
    run = whole(tmp_path / "run")
    lines = run.log.read_text().splitlines(keepends=True)
    whole_log = gather(run).records
    for number in bad:
        lines[number - 1] = '{"kind": "train"\n'
    run.log.write_text("".join(lines))
    found = gather(run)
    assert found.unreadable == [f"log.jsonl: {told} no record"]
    assert found.records == [record for i, record in enumerate(whole_log, 1) if i not in bad]


def test_the_newest_probe_that_reads_as_the_paper_speaks_for_the_run(tmp_path: Path) -> None:
    run = whole(tmp_path / "run")
    for name, written, kind in (("a", "1", "normed"), ("b", "2", "normed"), ("c", "3", "residual")):
        probe(run, replace(evidence(), config=ProbeConfig(features=kind)), name=name, written=written)
    found = gather(run).probe
    assert found is not None
    assert (found["written"], found["config"]["features"]) == ("2", "normed")


@pytest.mark.parametrize(
    "other",
    [
        {"method": RidgeProbe()},
        {"method": KnnProbe()},
        {"method": SgdProbe()},
        {"mask_ensemble": 5},
        {"layer": 1},
    ],
)
def test_another_method_does_not_stand_in_for_the_papers(tmp_path: Path, other: dict[str, Any]) -> None:
    run = whole(tmp_path / "run")
    for name, written, changed in (("a", "1", {"concat": 5}), ("b", "2", other)):
        probe(run, replace(evidence(), config=ProbeConfig(**changed)), name=name, written=written)
    found = gather(run)
    assert found.probe is not None
    assert found.probe["written"] == "1"
    assert aside(found.probe) == ""
    assert aside(found.probes[-1]) != ""


def test_a_probe_of_before_there_were_methods_is_as_the_papers(tmp_path: Path) -> None:
    run = whole(tmp_path / "run")
    path = run.probes / "probe.json"
    values = json.loads(path.read_text())
    for name in ("method", "mask_ensemble", "layer"):
        del values["config"][name]
    path.write_text(json.dumps(values))
    probe(run, replace(evidence(), config=ProbeConfig(mask_ensemble=1)), name="later", written="9")
    found = gather(run).probe
    assert found is not None
    assert as_paper(found)
    assert "written" not in found


def test_without_a_probe_as_the_papers_the_newest_speaks(tmp_path: Path) -> None:
    run = bare(tmp_path / "run")
    assert gather(run).probe is None
    for written in ("1", "2"):
        probe(run, replace(evidence(), config=ProbeConfig(pool="max")), name=written, written=written)
    found = gather(run).probe
    assert found is not None
    assert found["written"] == "2"


def test_a_run_without_a_readable_recipe_is_refused(tmp_path: Path) -> None:
    run = bare(tmp_path / "run")
    run.recipe.write_text("{")
    with pytest.raises(ValueError, match=r"recipe\.json cannot be read"):
        gather(run)


def analysed(run: RunFolder, **changes: Any) -> None:
    """A run of which the inductive biases were measured."""
    layers = [{"layer": i, "translation": 0.1, "order": 0.5, "reach": 2.0} for i in range(3)]
    numbers = {
        "step": 100,
        "images": 8,
        "even_reach": 5.0,
        "layers": layers,
        "command": ["isopix", "analyse"],
    }
    run.analysis.mkdir()
    (run.analysis / "biases.json").write_text(json.dumps(numbers | changes))


def test_analyses_are_read_and_told(tmp_path: Path) -> None:
    run = whole(tmp_path / "run")
    analysed(run)
    [found] = gather(run).analyses
    assert found.name == "biases"
    assert "At the last layer 0.10, 0.50 and 2.0, on 8 images" in found.caption
    assert len(found.figure.axes) == 3


@pytest.mark.parametrize("damage", [{"layers": []}, {"layers": 3}, {"step": None}, {"images": "many"}])
def test_an_analysis_that_cannot_be_drawn_or_told_is_named(tmp_path: Path, damage: dict[str, Any]) -> None:
    run = whole(tmp_path / "run")
    analysed(run, **damage)
    found = gather(run)
    assert found.analyses == []
    assert [line.split(":")[0] for line in found.unreadable] == ["biases.json"]


@pytest.mark.parametrize("even", [{}, {"even_distances": 33.1}], ids=["missing", "of another kind"])
def test_an_analysis_of_another_time_is_named_too(tmp_path: Path, even: dict[str, Any]) -> None:
    run = whole(tmp_path / "run")
    run.analysis.mkdir()
    heads = [{"pixels": 3.0, "deviation": 0.5, "of_even": 0.5}]
    numbers = {"step": 100, "layers": [{"layer": "1", "heads": heads}], **even}
    (run.analysis / "attention-distance.json").write_text(json.dumps(numbers))
    found = gather(run)
    assert found.analyses == []
    assert [line.split(":")[0] for line in found.unreadable] == ["attention-distance.json"]
