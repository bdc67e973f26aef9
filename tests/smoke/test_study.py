"""`lr=search` and `isopix reproduce`, at a micro scale."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from isopix.studies.inductive_bias import study
from isopix.studies.inductive_bias.results import StudyResult
from isopix.studies.papers.protocol import Setup
from tests.smoke.conftest import Run, done
from tests.trained import different_weights
from tests.unit.studies.papers.fakes import TABLES

WORDS = ["width=8", "batch_size=16", "data.rows=8", "data.cols=8", "data.limit=150", "log_every=2", "steps=8"]
WORDS += ["evaluate_every=8", "checkpoint_every=4", "evaluate_images=32"]
STUDY = ["reproduce", "isotropic.study", "--out", "bias"]
MICRO = [*STUDY, "--data", "digits", "--trials", "*-pix2vec-1", "--seeds", "1", "--jobs", "2", *WORDS]


@pytest.fixture
def no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out figures, which take seconds, in tests that do not need them."""
    monkeypatch.setattr(study, "study_figures", lambda *given: [])


@pytest.mark.integration
@pytest.mark.usefixtures("no_figures")
def test_a_study_is_made_and_a_failed_trial_is_retried(isopix: Run) -> None:
    blocked = Path("bias/trials/mixer-pix2vec-1-seed-0/letter.txt")
    plan = {"scale": "tiny", "cells": ["conv-pix2vec-1"], "seeds": 1, "data": "digits"}
    blocked.parent.mkdir(parents=True)
    blocked.write_text("in the way")
    Path("bias/results").mkdir()
    Path("bias/study.json").write_text(json.dumps(plan | {"settings": WORDS}))
    code, out, err = isopix(*MICRO)
    assert code == 1
    assert "not decided" in out
    failed = "isopix: 1 of 3 trials failed; the same command retries them; mixer-pix2vec-1-seed-0"
    assert err.startswith(failed)
    assert "is not empty" in err
    found = StudyResult.read(Path("bias/report.html"))
    assert sorted(trial.status for trial in found.trials.values()) == ["done", "done", "failed"]
    blocked.unlink()
    out = done(isopix(*MICRO, "--json"))
    printed = json.loads(out)
    assert {trial["status"] for trial in printed["trials"].values()} == {"done"}
    assert [claim["letter"] for claim in printed["claims"]["mean"]] == list("abcdefghij")
    assert printed["path"].endswith("bias/report.html")
    assert Path("bias/trials/mixer-pix2vec-1-seed-0/recipe.json").is_file()
    Path("bias/report.html").unlink()
    out = done(isopix(*STUDY, "--report-only", "--json"))
    assert json.loads(out)["claims"] == printed["claims"]


@pytest.mark.integration
@pytest.mark.usefixtures("no_figures")
def test_a_stopped_study_saves_and_the_same_command_resumes_it(workplace: Path, isopix: Run) -> None:
    words = [*STUDY, "--data", "digits", "--trials", "conv-pix2vec-1", "--seeds", "1", "--jobs", "1", *WORDS]
    words = [*[word for word in words if word != "steps=8"], "steps=80"]
    command = [sys.executable, "-m", "isopix", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 100
        while not list(Path("bias").glob("trials/*-0/checkpoints/step-*4")) and time.monotonic() < deadline:
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate()
    assert process.returncode == 75
    assert "stopped and saved: bias; the same command resumes" in " ".join(out.split())
    assert not Path("bias/report.html").exists()
    done(isopix(*words))
    notes = Path("bias/trials/conv-pix2vec-1-seed-0/log.jsonl").read_text().splitlines()
    steps = [json.loads(line)["step"] for line in notes if json.loads(line)["kind"] == "train"]
    assert steps == sorted(set(steps))
    assert steps[-1] == 80


SEARCH = ["depth=1", "width=16", "steps=24", "batch_size=16", "log_every=1", "evaluate_images=40"]


def test_a_search_for_the_learning_rate_trains_with_the_best_one(isopix: Run) -> None:
    words = ["pretrain", "igpt.digits", "--limit", "90", *SEARCH]
    out = done(isopix(*words, "lr=search:3..0.01", "--out", "lr"))
    assert "diverged at step" in out
    [best] = [line.split()[-1] for line in out.splitlines() if line.startswith("best learning rate: ")]
    done(isopix(*words, f"lr={best}", "--out", "alone"))
    assert different_weights(Path("lr"), Path("alone")) == []
    assert f"lr {best}: " in Path("lr/log.jsonl").read_text()


TINY = ["depth=1", "width=16", "steps=4", "batch_size=8", "evaluate_images=20", "num_test_images=20"]


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fine-tune for four steps; the last weights count, as after so few none may be better than the first."""
    settings = Setup.finetune_settings
    words = ("steps=4", "evaluate_every=2", "batch_size=8", "evaluate_images=20", "finetune.patience=null")
    monkeypatch.setattr(Setup, "finetune_settings", lambda *given: (*settings(*given), *words))


@pytest.mark.usefixtures("quick_probes")
def test_a_protocol_with_a_limit_measures_no_more_images(isopix: Run) -> None:
    data = ["--data", "translated-digits", "--pretrain-data", "digits"]
    done(isopix("reproduce", "igpt.figure2", *data, "--limit", "30", "--out", "out", *TINY))
    [probe] = Path("out/runs").glob("*/probes/probe-*.json")
    found = json.loads(probe.read_text())["network"]["num_images"]
    assert found == dict.fromkeys(("train", "validation", "test"), 30)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.usefixtures("quick_probes", "short")
@pytest.mark.parametrize("name", TABLES)
def test_every_protocol_runs(isopix: Run, workplace: Path, name: str) -> None:
    code, out, err = isopix("reproduce", name, "--out", "out", *TINY)
    assert code == 0, f"{out}\n{err}"
    table = json.loads((workplace / "out" / name / "report.json").read_text())
    for row in table["rows"]:
        if row["measured"] and name != "igpt.figure3":
            assert set(row["cells"]) <= set(table["units"]), row
