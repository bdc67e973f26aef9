"""`isopix report` writes one file, says where, and shows the summary with its controls."""

import json
from pathlib import Path

import pytest

from isopix.cli.report import report
from tests.unit.report.cases import evidence, probe, whole


def test_one_run_keeps_its_own_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = whole(tmp_path / "run")
    report(run.path)
    assert run.report.read_text().lstrip().startswith("<!doctype html>")
    assert capsys.readouterr().out.endswith(f"wrote {run.report}\n")


def test_the_summary_shows_controls_beside_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report(whole(tmp_path / "run").path, json=True)
    told = json.loads(capsys.readouterr().out)
    names = [row["name"] for row in told["summary"]]
    assert names == ["run", "untrained", "shuffled labels", "raw pixels", "one class"]
    assert told["report"] == str(tmp_path / "run" / "report.html")


def test_what_the_table_cannot_say_follows_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, two = whole(tmp_path / "one"), whole(tmp_path / "two", found=evidence(trained=(0.3, 0.31)))
    report(one.path, two.path)
    told = " ".join(capsys.readouterr().out.split())
    assert "note: two: The best layer is not clearly above that of the untrained network" in told
    assert "not to be compared" not in told
    probe(two, evidence(), limit=400)
    report(one.path, two.path)
    assert "note: 2 runs, probed with different images, which are not to be compared." in " ".join(
        capsys.readouterr().out.split()
    )


def test_several_runs_have_a_report_beside_the_first(tmp_path: Path) -> None:
    runs = [whole(tmp_path / name) for name in ("a", "b")]
    report(*(run.path for run in runs))
    assert (tmp_path / "report.html").is_file()


def test_out_is_made_with_its_folders(tmp_path: Path) -> None:
    report(whole(tmp_path / "run").path, out=tmp_path / "new" / "folder" / "page.html")
    assert (tmp_path / "new" / "folder" / "page.html").is_file()


def test_a_folder_as_out_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"--out .* is a folder; a report is one file"):
        report(whole(tmp_path / "run").path, out=tmp_path)


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"has no recipe\.json"):
        report(tmp_path)
