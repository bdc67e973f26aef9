"""A study from Python resumes, reports, and stops when asked."""

import signal
from pathlib import Path
from typing import Any

import pytest

import isopix
from isopix.api.results import StudyProgress
from isopix.studies.inductive_bias import write_up
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
