"""`isopix study inductive-bias`."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from isopix.studies.inductive_bias import write_up
from tests.smoke.conftest import Run

pytestmark = pytest.mark.integration

WORDS = ["width=8", "batch_size=16", "data.rows=8", "data.cols=8", "data.limit=150", "log_every=2", "steps=8"]
WORDS += ["evaluate_every=8", "checkpoint_every=4", "evaluate_images=32"]
STUDY = ["study", "inductive-bias", "--out", "bias"]
MICRO = [*STUDY, "--data", "digits", "--trials", "*-pix2vec-1", "--seeds", "1", "--jobs", "2", *WORDS]


def no_figures(*given: object, **named: object) -> list[object]:
    """Replace figures, which take seconds, in tests that do not need them."""
    return []


def test_a_study_writes_claims_figures_and_a_page(isopix: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    code, out, err = isopix(*MICRO)
    assert code == 0, err
    assert "3/3  " in out
    for text in ("conv-pix2vec-1-seed-0: ", "not decided", "wrote "):
        assert text in out
    page = Path("bias/report.html").read_text()
    assert "of the paper’s ten claims ten are not decided" in page
    for number in range(1, 8):
        assert f"Figure {number}" in page
        assert list(Path("bias/figures").glob(f"figure-{number}*.json"))
    claims = json.loads(Path("bias/claims.json").read_text())["pools"]
    assert [claim["letter"] for claim in claims["mean"]] == list("abcdefghij")
    assert claims.keys() == {"mean", "grid4"}
    trials = json.loads(Path("bias/trials.json").read_text())["trials"]
    assert {trial["status"] for trial in trials} == {"done"}
    assert Path("bias/trials/mixer-pix2vec-1-seed-0/recipe.json").is_file()

    monkeypatch.setattr(write_up, "draw", no_figures)
    Path("bias/report.html").unlink()
    code, numbers, err = isopix(*STUDY, "--report-only", "--json")
    assert code == 0, err
    assert json.loads(numbers)["claims"] == claims
    assert Path("bias/report.html").is_file()


def test_a_failed_trial_is_reported_and_does_not_stop_the_others(
    isopix: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_up, "draw", no_figures)
    Path("bias/trials/mixer-pix2vec-1-seed-0").mkdir(parents=True)
    Path("bias/trials/mixer-pix2vec-1-seed-0/letter.txt").write_text("in the way")
    Path("bias/study.json").write_text(
        json.dumps(
            {
                "scale": "tiny",
                "architectures": [["conv", "pix2vec", 1]],
                "seeds": 1,
                "data": "digits",
                "settings": WORDS,
            }
        )
    )
    Path("bias/results").mkdir()
    code, out, err = isopix(*MICRO)
    assert code == 1
    assert "mixer-pix2vec-1-seed-0: failed: folder" in out
    assert err.startswith("isopix: 1 of 3 trials failed; retry with: isopix study inductive-bias")
    trials = json.loads(Path("bias/trials.json").read_text())["trials"]
    assert sorted(trial["status"] for trial in trials) == ["done", "done", "failed"]
    assert "is not empty" in Path("bias/report.html").read_text()
    Path("bias/trials/mixer-pix2vec-1-seed-0/letter.txt").unlink()
    code, out, err = isopix(*MICRO)
    assert code == 0, err
    assert "1/1  mixer-pix2vec-1-seed-0: " in out


def test_a_stopped_study_saves_and_the_same_command_resumes_it(
    workplace: Path, isopix: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_up, "draw", no_figures)
    words = [*STUDY, "--data", "digits", "--trials", "conv-pix2vec-1", "--seeds", "2", "--jobs", "1", *WORDS]
    words = [*[word for word in words if word != "steps=8"], "steps=80"]
    command = [sys.executable, "-m", "isopix", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 100
        while not list(Path("bias").glob("trials/*-0/checkpoints/step-*4")) and time.monotonic() < deadline:
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate()
    assert process.returncode == 75
    assert "stopped and saved; resume with: isopix study inductive-bias" in out
    assert not Path("bias/report.html").exists()
    code, out, err = isopix(*words)
    assert code == 0, err
    assert "2/2  conv-pix2vec-1-seed-1: " in out
    notes = Path("bias/trials/conv-pix2vec-1-seed-0/log.jsonl").read_text().splitlines()
    steps = [json.loads(line)["step"] for line in notes if json.loads(line)["kind"] == "train"]
    assert steps == sorted(set(steps))
    assert steps[-1] == 80


def test_errors_are_reported_and_nothing_is_written(isopix: Run) -> None:
    one = [*STUDY, "--trials", "conv-pix2vec-1"]  # building the recipes of all trials takes seconds
    for words, message in (
        ([*STUDY, "--trials", "axial-*"], "no trial of scale 'tiny' matches 'axial-*'"),
        ([*STUDY, "--report-only"], "bias is not a study; isopix study makes one"),
        ([*one, "stepps=3"], "unknown setting 'stepps'"),
        ([*STUDY, "--scale", "huge"], "--scale is 'huge'; it must be one of tiny, small, paper"),
        ([*one, "--jobs", "0"], "--jobs is 0; allowed: 1 or more"),
        ([*one, "--device", "tpu"], "device 'tpu' is not available"),
        ([*one, "--data", "digitz"], "no file or folder 'digitz'"),
    ):
        code, _, err = isopix(*words)
        assert (code, message in err) == (2, True), err
        assert not Path("bias").exists()
