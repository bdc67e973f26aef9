"""A run folder is read once; what cannot be read is listed, and what cannot be compared is said."""

import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from isopix.probing.config import ProbeConfig
from isopix.recipes import igpt
from isopix.reporting.page import report_page
from isopix.reporting.run_record import RunRecord, read_run, read_run_or_model
from isopix.reporting.summary import incomparable, summary_rows
from isopix.reporting.training import held_out_loss
from isopix.storage.run_folder import RunFolder
from isopix.verbs.report import result_kinds
from tests.unit.reporting.cases import bare, baselines, call, evidence, measurement, records, whole, write_log

WITHOUT_CLASSES = io.BytesIO()
np.savez(WITHOUT_CLASSES, images=np.zeros((1, 3, 2, 2), np.uint8))
DAMAGES: dict[str, tuple[Callable[[RunFolder], Path], bytes]] = {
    "no JSON": (lambda run: run.probes / "probe.json", b"{"),
    "another shape": (lambda run: run.probes / "probe.json", b'{"call": {"verb": "probe"}}'),
    "environment": (lambda run: run.environment, b"[]"),
    "data": (lambda run: run.data_sample, b"no archive"),
    "data without classes": (lambda run: run.data_sample, WITHOUT_CLASSES.getvalue()),
    "log": (lambda run: run.log, b"nothing\n"),
    "weights": (lambda run: next(run.checkpoints.glob("*/manifest.json")), b"{}"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_file_that_cannot_be_read_is_listed_and_the_rest_is_shown(tmp_path: Path, damage: str) -> None:
    run, (path, content) = whole(tmp_path / "run"), DAMAGES[damage]
    path(run).write_bytes(content)
    record = read_run(run)
    [problem] = record.problems
    assert "\n" not in problem
    assert str(tmp_path) not in problem
    assert "Files that could not be read" in report_page({"run": record}).html()


def test_a_recipe_of_another_version_is_a_problem_and_one_that_is_no_json_an_error(tmp_path: Path) -> None:
    run = whole(tmp_path / "run")
    run.recipe.write_text('{"name": "x", "unknown": 1}')
    record = read_run(run)
    assert record.recipe is None
    assert "recipe.json" in record.problems[0]
    assert report_page({"run": record}).html()
    run.recipe.write_text("{")
    with pytest.raises(ValueError, match="recipe"):
        read_run(run)
    with pytest.raises(ValueError, match="not a run"):
        read_run_or_model(tmp_path)


def test_the_primary_probe_is_the_papers_of_the_runs_own_images_and_of_the_most(tmp_path: Path) -> None:
    run = bare(tmp_path / "run", igpt.digits())
    given = {
        "own": evidence(),
        "newer": evidence(call=call("probe", "2027")),
        "pool": evidence(config=ProbeConfig(pool="max"), call=call("probe", "2028")),
        "method": evidence(method={"kind": "knn"}, call=call("probe", "2028")),
        "data": evidence(data="other", step=200),
    }
    for names, primary in (
        (["own"], "own"),
        (given, "newer"),
        (["pool", "data"], "data"),
        (["method"], "method"),
    ):
        for name in given:
            (run.probes / f"{name}.json").unlink(missing_ok=True)
        for name in names:
            given[name].saved(run.probes / f"{name}.json")
        assert read_run(run).probe == given[primary].saved(run.probes / f"{primary}.json")
    assert read_run(bare(tmp_path / "none")).probe is None


def test_results_are_in_the_order_of_steps_then_of_writing(tmp_path: Path) -> None:
    run = bare(tmp_path / "run")
    for name, step, written in (("a", 20, "2026"), ("b", 10, "2027"), ("c", 10, "2026")):
        evidence(step=step, call=call("probe", written)).saved(run.probes / f"{name}.json")
    paths = [each.path for each in read_run(run).results]
    assert [path.stem for path in paths if path] == ["c", "b", "a"]


def test_a_record_is_read_as_the_kind_of_its_verb_that_has_its_fields(tmp_path: Path) -> None:
    run = bare(tmp_path / "run")
    evidence(data="a").saved(run.probes / "whole.json")
    record = json.loads((run.probes / "whole.json").read_text())
    (run.probes / "damaged.json").write_text(json.dumps(record | {"network": 1}))
    (run.probes / "strange.json").write_text(json.dumps({"call": {"verb": "open_studio"}}))
    found = read_run(run, result_kinds())
    assert [each.path for each in found.results] == [run.probes / "whole.json"]
    [problem] = found.problems
    assert "probes/damaged.json cannot be read: it is no ProbeResult of this version: network: " in problem


def test_runs_inside_a_run_are_not_its_results(tmp_path: Path) -> None:
    run = bare(tmp_path / "run")
    evidence().saved(run.path / "low-data" / "trial-1" / "probes" / "probe.json")
    assert read_run(run).results == []


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunRecord:
    return read_run(whole(tmp_path_factory.mktemp("runs") / "run"))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"config": ProbeConfig(pool="max")}, "pool"),
        ({"method": {"kind": "knn"}}, "settings of the method"),
        ({"measurement": measurement(images_hash="b")}, "images"),
        ({"config": ProbeConfig(pool="mean", seed=7)}, ""),
    ],
)
def test_probes_of_other_images_or_settings_are_not_compared(
    run: RunRecord, changes: dict[str, Any], reason: str
) -> None:
    runs = {"a": run, "b": replace(run, results=[evidence(**changes)])}
    assert reason in incomparable(runs)
    assert bool(incomparable(runs)) == bool(reason)
    shared = [row for row in summary_rows(runs) if row.kind == "shared"]
    assert bool(shared) != bool(reason)


def test_the_held_out_loss_is_of_test_then_of_validation(tmp_path: Path) -> None:
    run = bare(tmp_path / "run")
    write_log(run, [*records(), baselines("validation")])
    found = held_out_loss(read_run(run))
    assert found is not None
    assert (found.nats, found.split, found.measurement.count) == (1.8, "test", "64 test images of digits")
    assert "top neighbor" not in report_page({"run": read_run(run)}).html()  # a baseline on validation images
    write_log(run, [*records()[:-1], baselines("validation")])
    assert "top neighbor" in report_page({"run": read_run(run)}).html()
    assert (again := held_out_loss(read_run(run))) is not None
    assert (again.nats, again.split) == (1.9, "validation")
    assert "validation loss" in summary_rows({"run": read_run(run)})[0].description
