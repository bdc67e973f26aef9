"""`isopix report` writes one file, prints its path, and the summary with baselines."""

import json
from pathlib import Path

import pytest

from isopix.cli.report import report
from tests.unit.reporting.cases import evidence, probe, whole


def test_the_report_of_one_run_is_in_its_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = whole(tmp_path / "run")
    report(run.path)
    assert run.report.read_text().lstrip().startswith("<!doctype html>")
    assert capsys.readouterr().out.endswith(f"wrote {run.report}\n")


def test_the_summary_has_baselines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report(whole(tmp_path / "run").path, json=True)
    result = json.loads(capsys.readouterr().out)
    names = [row["name"] for row in result["summary"]]
    assert names == ["run", "untrained", "shuffled labels", "raw pixels", "majority class"]
    assert result["report"] == str(tmp_path / "run" / "report.html")


def test_notes_follow_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, two = whole(tmp_path / "one"), whole(tmp_path / "two", found=evidence(trained=(0.3, 0.31)))
    report(one.path, two.path)
    text = " ".join(capsys.readouterr().out.split())
    assert "note: two: No layer is significantly better than the untrained network" in text
    assert "cannot be compared" not in text
    probe(two, evidence(), limit=400)
    report(one.path, two.path)
    assert "note: 2 runs whose probes cannot be compared: they differ in images." in " ".join(
        capsys.readouterr().out.split()
    )


def test_the_report_of_several_runs_is_next_to_the_first(tmp_path: Path) -> None:
    runs = [whole(tmp_path / name) for name in ("a", "b")]
    report(*(run.path for run in runs))
    assert (tmp_path / "report.html").is_file()


def test_parent_folders_of_out_are_created(tmp_path: Path) -> None:
    report(whole(tmp_path / "run").path, out=tmp_path / "new" / "folder" / "page.html")
    assert (tmp_path / "new" / "folder" / "page.html").is_file()


def test_a_folder_as_out_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"out .* is a folder; a report is one file"):
        report(whole(tmp_path / "run").path, out=tmp_path)


def test_a_folder_that_is_not_a_run_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"has no recipe\.json"):
        report(tmp_path)
