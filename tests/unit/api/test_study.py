"""A study from Python resumes, reports, and stops when asked."""

import signal
from pathlib import Path
from typing import Any

import pytest

import isopix
from isopix.api.results import StudyProgress
from isopix.studies.inductive_bias import write_up
from isopix.studies.inductive_bias.grid import Study, plan_study
from tests.unit.data.refusal import refusal

TINY = ["steps=2", "width=16", "batch_size=4", "log_every=1", "evaluate_images=8", "data.limit=12"]
ONE: dict[str, Any] = {
    "data": "digits",
    "trials": "conv-pix2vec-1",
    "seeds": 1,
    "overrides": TINY,
    "jobs": 1,
    "device": "cpu",
}


def test_inductive_bias(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        write_up, "draw", lambda *given, **named: []
    )  # seconds; tests/smoke/test_study.py draws them
    ended: list[StudyProgress] = []
    found = isopix.study.inductive_bias(out=tmp_path / "study", progress=ended.append, **ONE)
    assert found.path.is_file()
    assert [(each.done, each.total) for each in ended] == [
        (n + 1, len(found.trials)) for n in range(len(ended))
    ]
    assert ended[-1].fraction == 1
    assert found.failed == []
    again = isopix.study.inductive_bias(out=tmp_path / "study", report_only=True)
    assert again.trials == found.trials
    assert [len(claims) for claims in again.claims.values()] == [10, 10]


def test_asked_to_stop_it_says_so(tmp_path: Path) -> None:
    def stop(ended: StudyProgress) -> None:
        signal.raise_signal(signal.SIGTERM)

    with pytest.raises(isopix.Interrupted, match="stopped and saved"):
        isopix.study.inductive_bias(out=tmp_path / "study", progress=stop, **ONE)


def test_impossible_arguments_are_refused(tmp_path: Path) -> None:
    line = refusal(lambda: isopix.study.inductive_bias(out=tmp_path / "s", **{**ONE, "jobs": 0}))
    assert line == "jobs is 0; allowed: 1 or more"


def test_a_report_takes_no_settings_of_the_study(tmp_path: Path) -> None:
    plan_only(tmp_path / "s")
    wrong: dict[str, Any] = {"scale": "paper", "seeds": 7, "overrides": ["width=3"]}
    line = refusal(lambda: isopix.study.inductive_bias(out=tmp_path / "s", report_only=True, **wrong))
    assert line.endswith("report of the study as it is; leave out scale, seeds, settings")
    line = refusal(lambda: isopix.study.inductive_bias(out=tmp_path / "s", report_only=True, trials="conv-*"))
    assert line.endswith("leave out trials")


def test_without_a_scale_a_study_goes_on_with_its_own(tmp_path: Path) -> None:
    plan_only(tmp_path / "s")
    line = refusal(lambda: isopix.study.inductive_bias(out=tmp_path / "s", trials="conv-pix2vec-12"))
    assert line.startswith("no trial of scale 'small' matches 'conv-pix2vec-12'")


def plan_only(folder: Path) -> None:
    """A study of scale small without any results."""
    with Study.create(folder, plan_study("small", data="digits", pattern="conv-*", seeds=1)):
        pass
