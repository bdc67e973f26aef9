"""Analyses, reports and plans from Python are those of the command line."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import isopix
from tests.unit.api.conftest import Copy, cli
from tests.unit.data.refusal import refusal

CPU: dict[str, Any] = {"device": "cpu"}


def test_analyze(copy_of: Copy) -> None:
    other = copy_of("ar", "other")
    found = isopix.analyze(other, limit=4, position=[(2, 3)], **CPU)
    assert type(found).read(found.path) == found
    assert found.analyses["attention_distance"]["images"] == 4
    assert found.not_applicable == {}
    assert isopix.analyze(isopix.load(other, device="cpu"), limit=4).path is None
    assert "position 9,9 does not exist" in refusal(lambda: isopix.analyze(other, position=["9,9"], **CPU))


def test_report(copy_of: Copy, tmp_path: Path) -> None:
    runs = [copy_of("ar", "ar"), copy_of("bert", "bert")]
    told = json.loads(cli("report", *runs, "--json"))
    found = isopix.report(*map(isopix.Run, runs))
    assert found.path == tmp_path / "report.html"
    assert [dataclasses.asdict(row) for row in found.summary] == told["summary"]
    assert isopix.report(runs[0]).path == runs[0] / "report.html"
    assert isopix.report(runs[0], out=tmp_path / "new" / "page.html").path.is_file()
    assert "is a folder" in refusal(lambda: isopix.report(runs[0], out=tmp_path))
    assert refusal(isopix.report).startswith("report needs at least one run")
