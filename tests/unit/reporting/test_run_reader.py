"""Files of a run folder are read; damaged ones are listed."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from isopix.probing.config import ProbeConfig
from isopix.recipes import registry
from isopix.reporting.page import render_report
from isopix.reporting.probe_section import nondefault_settings
from isopix.reporting.run_reader import read_run
from isopix.storage.run_folder import RunFolder
from tests.unit.reporting.cases import GRAYS, bare, drawing, evidence, probe, whole, words


def test_a_whole_run_is_read(tmp_path: Path) -> None:
    run = read_run(whole(tmp_path / "run"))
    assert run.weights is not None
    assert (run.weights.step, run.weights.parameters) == (100, 12)
    assert run.weights.colors is not None
    assert run.weights.colors[:, 0].tolist() == [15.0 * level for level in range(GRAYS)]
    assert [each.result.title for each in run.images] == ["Completions", "Samples"]
    assert len(run.probes) == 1
    assert not run.problems


def test_a_run_that_has_just_begun_is_read(tmp_path: Path) -> None:
    run = read_run(bare(tmp_path / "run"))
    assert (run.environment, run.log, run.weights, run.images, run.probes) == ({}, [], None, [], [])
    assert not run.problems


def test_images_are_in_the_order_of_their_steps(tmp_path: Path) -> None:
    run = bare(tmp_path / "run")
    for step in (100, 20):
        drawing(run, "sample", step)
    assert [each.result.step for each in read_run(run).images] == [20, 100]


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("environment.json", "{"),
        ("log.jsonl", "no record\n"),
        ("probes/probe.json", '{"network": {"layers": []}, "baselines": {}}'),
        ("probes/probe.json", "[1]"),
        ("samples/sample-100.json", "{"),
        ("samples/sample-100.png", "no picture"),
        ("checkpoints/step-00000100/model.safetensors", "short"),
    ],
)
def test_a_damaged_file_is_listed_and_the_rest_is_read(tmp_path: Path, file: str, text: str) -> None:
    run = whole(tmp_path / "run")
    (run.path / file).write_text(text)
    found = read_run(run)
    (line,) = found.problems
    assert Path(file).stem in line or "checkpoints" in line
    assert found.recipe is not None
    assert found.recipe.name == "igpt.digits"


@pytest.mark.parametrize(("bad", "text"), [([3], "line 3 is"), ([3, 5], "2 lines, the first is 3, are")])
def test_bad_lines_of_the_log_lose_those_lines_only(tmp_path: Path, bad: list[int], text: str) -> None:
    run = whole(tmp_path / "run")
    lines = run.log.read_text().splitlines(keepends=True)
    whole_log = read_run(run).log
    for number in bad:
        lines[number - 1] = '{"kind": "train"\n'
    run.log.write_text("".join(lines))
    found = read_run(run)
    assert found.problems == [f"log.jsonl: {text} not a record"]
    assert found.log == [record for i, record in enumerate(whole_log, 1) if i not in bad]


def test_the_newest_probe_with_the_papers_settings_is_the_primary_one(tmp_path: Path) -> None:
    run = whole(tmp_path / "run")
    for name, written, features in (("a", "1", "normed"), ("b", "2", "normed"), ("c", "3", "residual")):
        probe(
            run,
            replace(evidence(), config=ProbeConfig(pool="mean", features=features)),
            name=name,
            written=written,
        )
    found = read_run(run).probe
    assert found is not None
    assert (found.written, found.report.config.features) == ("2", "normed")


@pytest.mark.parametrize(
    "other",
    [
        {"method": "ridge"},
        {"method": "knn"},
        {"method": "sgd"},
        {"mask_ensemble": 5},
        {"layer": 1},
    ],
)
def test_a_probe_with_other_settings_is_not_the_primary_one(tmp_path: Path, other: dict[str, Any]) -> None:
    run = whole(tmp_path / "run")
    for name, written, changed in (("a", "1", {"concat": 5}), ("b", "2", other)):
        probe(
            run,
            replace(evidence(), config=ProbeConfig(**{"pool": "mean", **changed})),
            name=name,
            written=written,
        )
    found = read_run(run)
    assert found.probe is not None
    assert found.probe.written == "1"
    assert nondefault_settings(found.probe) == ""
    assert nondefault_settings(found.probes[-1]) != ""


def test_without_a_probe_with_the_papers_settings_the_newest_is_primary(tmp_path: Path) -> None:
    run = bare(tmp_path / "run")
    assert read_run(run).probe is None
    for written in ("1", "2"):
        probe(run, replace(evidence(), config=ProbeConfig(pool="max")), name=written, written=written)
    found = read_run(run).probe
    assert found is not None
    assert found.written == "2"


def test_the_primary_probe_of_a_model_with_a_class_token_reads_the_token(tmp_path: Path) -> None:
    run = whole(tmp_path / "run", registry.find("vit.tiny"))
    for pool in ("first", "mean"):
        probe(run, replace(evidence(), config=ProbeConfig(pool=pool)), name=pool, written=pool)
    found = read_run(run).probe
    assert found is not None
    assert found.report.config.pool == "first"


def test_a_run_without_a_json_recipe_is_refused(tmp_path: Path) -> None:
    run = bare(tmp_path / "run")
    run.recipe.write_text("{")
    with pytest.raises(ValueError, match=r"recipe\.json cannot be read"):
        read_run(run)


def analysed(run: RunFolder, **changes: Any) -> None:
    """A run of which the inductive biases were measured."""
    layers = [
        {"layer": i, "translation_error": 0.1, "permutation_error": 0.5, "receptive_field_mean": 2.0}
        for i in range(3)
    ]
    numbers = {
        "step": 100,
        "images": 8,
        "uniform_receptive_field_mean": 5.0,
        "layers": layers,
        "command": ["isopix", "analyze"],
    }
    run.analysis.mkdir()
    (run.analysis / "inductive_biases.json").write_text(json.dumps(numbers | changes))


def test_analyses_are_read_with_their_captions(tmp_path: Path) -> None:
    run = whole(tmp_path / "run")
    analysed(run)
    [found] = read_run(run).analyses
    assert found.title == "Inductive biases"
    assert "Last layer: 0.10, 0.50, 2.0; 8 images" in found.caption
    assert found.figure is not None
    assert len(found.figure.axes) == 3
    assert found.caption.endswith(" Step 100.")


def test_an_analysis_that_is_not_registered_is_named_and_shown_last(tmp_path: Path) -> None:
    run = whole(tmp_path / "run")
    analysed(run)
    (run.analysis / "halves.json").write_text('{"step": 3}')
    record = read_run(run)
    assert [each.title for each in record.analyses] == ["Inductive biases", "halves"]
    assert record.problems == []
    page = words(render_report({"run": record}))
    assert "No analysis of this name is registered; load the plugin" in page
    assert "The numbers are in analysis/halves.json." in page


@pytest.mark.parametrize("damage", [{"layers": []}, {"layers": 3}, {"step": None}, {"images": "many"}])
def test_an_analysis_that_cannot_be_drawn_or_captioned_is_listed(
    tmp_path: Path, damage: dict[str, Any]
) -> None:
    run = whole(tmp_path / "run")
    analysed(run, **damage)
    found = read_run(run)
    assert found.analyses == []
    assert [line.split(":")[0] for line in found.problems] == ["inductive_biases.json"]


@pytest.mark.parametrize("even", [{}, {"uniform_distances": 33.1}], ids=["missing", "of another kind"])
def test_an_analysis_of_another_version_is_listed_too(tmp_path: Path, even: dict[str, Any]) -> None:
    run = whole(tmp_path / "run")
    run.analysis.mkdir()
    heads = [{"mean": 3.0, "std": 0.5, "relative_to_uniform": 0.5}]
    numbers = {"step": 100, "layers": [{"layer": "1", "heads": heads}], **even}
    (run.analysis / "attention_distance.json").write_text(json.dumps(numbers))
    found = read_run(run)
    assert found.analyses == []
    assert [line.split(":")[0] for line in found.problems] == ["attention_distance.json"]


def test_a_recipe_of_unknown_parts_is_listed_and_its_settings_are_kept(tmp_path: Path) -> None:
    run = whole(tmp_path / "run")
    run.recipe.write_text(
        json.dumps(json.loads(run.recipe.read_text()) | {"objective": {"kind": "rotation"}})
    )
    found = read_run(run)
    assert found.recipe is None
    assert found.settings["objective"] == {"kind": "rotation"}
    assert [line.split(":")[0] for line in found.problems] == ["recipe.json"]
