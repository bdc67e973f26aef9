"""Scores of images on the page of a run."""

import json
import math
from pathlib import Path

import pytest
from isopix.reporting.score_section import score_section
from PIL import Image

from isopix.recipes import registry
from isopix.reporting.run_record import read_run
from isopix.storage.run_folder import RunFolder
from tests.unit.reporting.cases import bare

SUMMARY = {"images": 90, "mean": 1.25, "standard_deviation": 0.5, "standard_error": 0.0527}


def scored(path: Path, **changes: object) -> Path:
    run = bare(path, registry.find("igpt.digits"))
    folder = run.scores / "00000100-digits-test-1"
    folder.mkdir(parents=True)
    values = {"step": 100, "data": "digits", "split": "test", "scores": {"nats_per_code": SUMMARY}}
    values |= {"against": None, "auroc": {}, "command": ["isopix", "score"], "images": []} | changes
    (folder / "scores.json").write_text(json.dumps(values))
    Image.new("RGBA", (8, 8)).save(folder / "surprise.png")
    return path


def test_means_errors_and_spreads_are_shown(tmp_path: Path) -> None:
    record = read_run(RunFolder(scored(tmp_path / "run")))
    section = score_section(record)
    assert section is not None
    [panel] = section.panels
    assert [list(row.cells) for row in panel.tables[0].rows] == [
        ["model, nats per code", "1.250 ± 0.053 (0.50)"]
    ]
    assert str(panel.notes[0]).startswith("90 test images of digits: mean ± standard error")
    assert len(panel.charts) == 1


def test_another_dataset_has_a_column_and_the_auroc(tmp_path: Path) -> None:
    other = {"data": "photos", "scores": {"nats_per_code": {**SUMMARY, "mean": 2.5, "images": 7}}}
    auroc = {"nats_per_code": {"auroc": 0.75, "low": 0.5, "high": 0.875}}
    section = score_section(read_run(RunFolder(scored(tmp_path / "run", against=other, auroc=auroc))))
    assert section is not None
    [panel] = section.panels
    assert [title for title, _ in panel.tables[0].columns][1:3] == ["digits", "photos"]
    assert list(panel.tables[0].rows[0].cells)[2:] == ["2.500 ± 0.053 (0.50)", "0.750 (0.500–0.875)"]
    assert "one of 7 images of photos" in str(panel.notes[1])


def test_without_scores_the_command_is_named(tmp_path: Path) -> None:
    section = score_section(read_run(bare(tmp_path / "run", registry.find("igpt.digits"))))
    assert section is not None
    assert f"isopix score {tmp_path / 'run'}" in str(section.panels[0].notes[0])


@pytest.mark.parametrize(
    "scores", [{"nats_per_code": {"mean": 1}}, [], {"nats_per_code": {**SUMMARY, "mean": "x"}}]
)
def test_a_wrong_file_is_listed(tmp_path: Path, scores: object) -> None:
    record = read_run(RunFolder(scored(tmp_path / "run", scores=scores)))
    assert not record.scores
    assert record.problems[0].startswith("scores.json: ")


def test_one_image_has_no_spread(tmp_path: Path) -> None:
    one = {"images": 1, "mean": math.pi, "standard_deviation": None, "standard_error": None}
    section = score_section(read_run(RunFolder(scored(tmp_path / "run", scores={"masked_loss": one}))))
    assert section is not None
    assert list(section.panels[0].tables[0].rows[0].cells) == ["masked loss, nats per code", "3.142"]
