"""Training through its verbs: pretrain, resume, finetune."""

import signal
from pathlib import Path
from typing import Any

import pytest

import isopix
from isopix.core.verb import VERBS, check_job
from isopix.runs.results import TrainingResult
from isopix.runs.training import TrainingRun
from tests.tiny_runs import CPU, LIMIT, TINY
from tests.unit.data.refusal import refusal

WEIGHTS = "checkpoints/step-00000004/model.safetensors"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> TrainingResult:
    out = tmp_path_factory.mktemp("runs") / "ar"
    return isopix.pretrain("igpt.digits", *TINY, out=out, limit=LIMIT, **CPU)


def test_show_says_what_a_run_has_changed_of_its_recipe(run: TrainingResult) -> None:
    shown = isopix.show(run).settings
    changed = {each.path.rpartition(".")[2]: each.value for each in shown if each.source == "run"}
    assert changed.pop("limit") == LIMIT
    assert {f"{name}={value}" for name, value in changed.items()} == {*TINY}


@pytest.fixture
def stopped_at_2(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that gets SIGTERM in step 2 of a training."""
    record = TrainingRun.record

    def stopping(run: TrainingRun, values: dict[str, Any]) -> None:
        record(run, values)
        if values["kind"] == "train" and values["step"] == 2:
            signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(TrainingRun, "record", stopping)


@pytest.mark.usefixtures("stopped_at_2")
@pytest.mark.parametrize("command", ["resume", "pretrain"])
def test_a_stop_saves_and_resume_or_the_same_call_continues(
    run: TrainingResult, tmp_path: Path, caplog: pytest.LogCaptureFixture, command: str
) -> None:
    words = [*TINY, "checkpoint_every=1", "evaluate_every=4"]  # a step is recorded during the next one

    def pretrain() -> TrainingResult:
        return isopix.pretrain("igpt.digits", *words, out=tmp_path / "run", limit=LIMIT, **CPU)

    def again() -> TrainingResult:
        return isopix.resume(stopped, **CPU) if command == "resume" else pretrain()

    with pytest.raises(isopix.Interrupted, match="stopped at step 2 and saved") as caught:
        pretrain()
    stopped = caught.value.result
    assert (stopped.step, stopped.finished, stopped.losses) == (2, False, {})  # validation was at step 0
    assert f"stopped and saved at step 2; resume with: isopix resume {stopped.path}" in repr(stopped)
    assert again().finished
    assert "nothing is left to train" not in caplog.text
    finished = again()
    assert "has all its steps (4); nothing is left to train" in caplog.text
    assert (tmp_path / "run" / WEIGHTS).read_bytes() == (Path(run) / WEIGHTS).read_bytes()
    assert finished.losses["test"] == run.losses["test"]


def test_another_call_into_the_same_folder_lists_what_differs(run: TrainingResult) -> None:
    def again(recipe: str, *words: str, **given: Any) -> TrainingResult:
        return isopix.pretrain(recipe, *TINY, *words, **{"out": run.path, "limit": LIMIT, **CPU, **given})

    both = "train.steps=4, not 5; train.optimizer.lr=0.003, not 0.1"
    expected = f"run {run.path} has {both}; choose another --out"
    assert refusal(again, "igpt.digits", "lr=0.1", "steps=5") == expected
    assert 'has name="igpt.digits", not "igpt.digits_bert"; ' in refusal(again, "igpt.digits_bert")
    assert "has data.limit=60, not 30; " in refusal(lambda: again("igpt.digits", limit=30))
    assert 'data.source="digits", not "a.npz"' in refusal(lambda: again("igpt.digits", data="a.npz"))
    assert "out is the source run" in refusal(lambda: again("igpt.digits", weights=run))
    assert again("igpt.digits", "data.workers=1").finished  # which changes no number


def test_the_settings_of_a_call_are_those_before_the_codec_was_fitted(tmp_path: Path) -> None:
    def pretrain(colors: int) -> TrainingResult:
        words = [*TINY, "steps=1", f"num_colors={colors}"]
        return isopix.pretrain("igpt.digits", *words, out=tmp_path / "run", limit=LIMIT, **CPU)

    fitted = pretrain(100).run.recipe.model.codec.num_colors
    assert fitted < 100
    assert pretrain(100).finished
    assert f"has model.codec.num_colors=100, not {fitted}; " in refusal(pretrain, fitted)


@pytest.mark.parametrize(("name", "lr"), [("pretrain", "0.1"), ("finetune", "0.1"), ("pretrain", "search")])
def test_a_job_is_checked_and_not_begun(tmp_path: Path, name: str, lr: str) -> None:
    verb = VERBS[name]
    assert verb.slurm

    def call(*words: str) -> Any:
        source = "igpt.digits-trained" if name == "finetune" else "igpt.digits"
        return verb.function(source, *words, f"lr={lr}", out=tmp_path / "run", limit=LIMIT, **CPU)

    check_job(lambda: call("batch_size=8"), 4)
    assert list(tmp_path.iterdir()) == []
    assert "batch_size 8 is not a multiple of 3 processes" in refusal(
        check_job, lambda: call("batch_size=8"), 3
    )
    assert "unknown setting 'dept'" in refusal(check_job, lambda: call("dept=1"), 1)
