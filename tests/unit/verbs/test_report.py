"""`isopix report` writes one page and its summary; `isopix demo` trains side by side, and resumes."""

import signal
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from isopix.core.signals import Interrupted, StopRequest
from isopix.probing.config import ProbeConfig
from isopix.recipes import igpt
from isopix.reporting.results import RunRow
from isopix.verbs import report as demo_verb
from isopix.verbs.catalog import list_models
from isopix.verbs.report import demo, report
from tests.golden.values import check_golden
from tests.smoke.conftest import QUICK, quick_figures, quick_probes
from tests.unit.reporting.cases import evidence, whole, words

__all__ = ["quick_figures", "quick_probes"]


def test_the_report_of_one_run_is_in_its_folder_with_its_summary(tmp_path: Path) -> None:
    run = whole(tmp_path / "run")
    found = report(run.path)
    assert found.path == run.report
    assert run.report.read_text().lstrip().startswith("<!doctype html>")
    check_golden("results", "report of a run", str(found).splitlines())


def test_the_report_of_several_runs_is_next_to_the_first_and_says_what_differs(tmp_path: Path) -> None:
    one, two = (whole(tmp_path / name) for name in ("one", "two"))
    assert report(one.path, two.path).warnings == ()
    assert (tmp_path / "report.html").is_file()
    evidence(config=ProbeConfig(pool="max")).saved(two.probes / "probe.json")
    found = report(one.path, two.path, out=tmp_path / "new" / "page.html")
    assert found.warnings == ("these runs cannot be compared: probes differ in pool",)
    assert (tmp_path / "new" / "page.html").is_file()


def test_the_runs_of_a_folder_are_listed_and_reported_with_the_settings_that_differ(tmp_path: Path) -> None:
    for name, width in (("b", 32), ("a", 16)):
        whole(tmp_path / "runs" / name, igpt.digits().updated(width=width))
    (tmp_path / "runs" / "no run").mkdir()
    listed = list_models("runs", tmp_path / "runs")
    row = RunRow("a", 100, 1.8, evidence().accuracy, None, {"model.width": "16"})
    assert listed.runs == (row, replace(row, name="b", settings={"model.width": "32"}))
    page = words(report(tmp_path / "runs").path.read_text()).split()
    assert "run step loss probe fine-tuned model.width a 100 1.800 50.0% 16 b" in " ".join(page)
    for given in (("runs", None), ("runs", tmp_path / "runs" / "no run"), ("models", tmp_path / "runs")):
        with pytest.raises(ValueError, match=r"runs FOLDER|no run in"):
            list_models(*given)


def test_a_folder_as_out_and_what_is_no_run_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"out .* is a folder; a report is one file"):
        report(whole(tmp_path / "run").path, out=tmp_path)
    with pytest.raises(ValueError, match="at least one run"):
        report()


@pytest.mark.integration
@pytest.mark.usefixtures("quick_probes", "quick_figures")
def test_a_demo_writes_one_report_and_resumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo_verb, "FEW_LABELS", (1, 2, 100))  # no class has 100
    settings = [*QUICK, "data.limit=60"]
    found = demo(*settings, out=tmp_path, device="cpu")
    assert found.path == tmp_path / "report.html"
    assert [row.name for row in found.summary if row.kind == "run"] == ["ar", "bert", "conv"]
    page = found.path.read_text()
    assert page.count("data:image/png;base64,") >= 4
    log = (tmp_path / "ar/log.jsonl").read_text()
    again = demo(*settings, out=tmp_path, device="cpu")
    assert (again.path, again.summary) == (found.path, found.summary)
    assert (tmp_path / "ar/log.jsonl").read_text() == log


def test_a_training_of_a_demo_that_fails_says_why(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"^unknown recipe 'nothing'"):
        demo_verb.train_side_by_side(
            {tmp_path / "a": ["pretrain", "nothing", "--out", str(tmp_path / "a")]}, 1, "cpu"
        )


def test_a_stopped_demo_is_saved_and_exits_as_a_stopped_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = nullcontext(StopRequest(signal.SIGINT))
    monkeypatch.setattr("isopix.core.signals.stop_requested", lambda: request)
    with pytest.raises(Interrupted, match="stopped and saved"):  # exit code 75
        demo_verb.train_side_by_side({tmp_path / "a": ["list"]}, 1, "cpu")
