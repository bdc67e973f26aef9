"""Training from Python writes what the command line writes, for the same seed."""

import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import isopix
from isopix.api.starts import resolve_recipe
from isopix.recipes import registry
from isopix.runs.training import TrainingRun
from tests.unit.api.conftest import LIMIT, TINY, Copy, assert_same_files, cli
from tests.unit.data.refusal import refusal

CPU: dict[str, Any] = {"device": "cpu"}
FEW = ["steps=2", "evaluate_every=1", "batch_size=8", "num_test_images=16", "evaluate_images=16"]


def test_pretrain(pristine: Path, tmp_path: Path) -> None:
    run = isopix.pretrain(
        "igpt.digits",
        data="digits",
        out=tmp_path / "run",
        overrides=TINY,
        limit=LIMIT,
        **CPU,
    )
    assert_same_files(pristine / "ar", run.folder)
    assert (run.status.step, run.status.finished) == (4, True)


def test_a_recipe_object_can_be_changed_too(pristine: Path, tmp_path: Path) -> None:
    recipe = registry.resolve("igpt.digits", assignments=TINY).recipe
    assert isopix.pretrain(recipe, out=tmp_path / "run", limit=LIMIT, **CPU).recipe.data.limit == LIMIT
    assert_same_files(pristine / "ar", tmp_path / "run")
    file = tmp_path / "settings.toml"
    file.write_text("width = 32\ndepth = 3\n")
    changed = resolve_recipe(recipe, file=file, options={"seed": 7}, overrides=["width=48"])
    assert (changed.model.depth, changed.model.width, changed.train.seed) == (3, 48, 7)


def test_a_wrong_setting_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    line = refusal(lambda: isopix.pretrain("igpt.digits", out=tmp_path / "run", overrides=["dept=2"]))
    assert "unknown setting 'dept'; did you mean 'model.depth'?" in line
    assert list(tmp_path.iterdir()) == []


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
def test_resume_after_being_asked_to_stop(pristine: Path, tmp_path: Path) -> None:
    with pytest.raises(isopix.Interrupted, match="stopped at step 2 and saved") as caught:
        isopix.pretrain("igpt.digits", out=tmp_path / "run", overrides=TINY, limit=LIMIT, **CPU)
    assert not caught.value.result.status.finished
    run = isopix.resume(caught.value.result, **CPU)
    assert run.status.finished
    ours, whole = (
        each / "checkpoints/step-00000004/model.safetensors" for each in (run.folder, pristine / "ar")
    )
    assert ours.read_bytes() == whole.read_bytes()


@pytest.mark.usefixtures("stopped_at_2")
def test_resume_names_the_step_of_the_checkpoint_that_it_loads(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    overrides = [*TINY, "checkpoint_every=1"]
    with pytest.raises(isopix.Interrupted, match="stopped at step 2"):
        isopix.pretrain("igpt.digits", out=tmp_path / "run", overrides=overrides, limit=LIMIT, **CPU)
    with (tmp_path / "run/checkpoints/step-00000002/model.safetensors").open("r+b") as weights:
        weights.truncate(1000)
    isopix.show_progress()
    with suppress(isopix.Interrupted):
        isopix.resume(tmp_path / "run", **CPU)
    isopix.show_progress(False)
    assert "from step 1 of 4" in capsys.readouterr().err


def test_search_lr(tmp_path: Path) -> None:
    words = ["--out", tmp_path / "cli", "--limit", LIMIT, "--device", "cpu"]
    cli("search-lr", "igpt.digits", *TINY, *words)
    found = isopix.search_lr(
        "igpt.digits",
        out=tmp_path / "python",
        overrides=TINY,
        limit=LIMIT,
        **CPU,
    )
    assert_same_files(tmp_path / "cli", tmp_path / "python")
    assert found.best is None, "four steps learn nothing"
    fixed = ["lr=1"]
    line = refusal(lambda: isopix.search_lr("igpt.digits", out=tmp_path / "x", overrides=fixed))
    assert "set max_lr and min_lr instead" in line


def test_finetune(copy_of: Copy, tmp_path: Path) -> None:
    source = copy_of("ar", "ar")
    cli("finetune", source, *FEW, "--out", tmp_path / "cli", "--limit", LIMIT, "--device", "cpu")
    run = isopix.finetune(isopix.Run(source), out=tmp_path / "python", overrides=FEW, limit=LIMIT, **CPU)
    assert_same_files(tmp_path / "cli", run.folder)
    assert 0 <= run.metrics.test["accuracy"] <= 1


def test_finetune_and_refit_on_validation(copy_of: Copy, tmp_path: Path) -> None:
    words = [*FEW, "generative_weight=0.5", "lr=0.01"]
    run = isopix.finetune(
        copy_of("ar", "ar"),
        out=tmp_path / "run",
        overrides=words,
        limit=LIMIT,
        refit_on_validation=True,
        **CPU,
    )
    assert run.recipe.data.train_on_validation
    assert (run.folder / "selection" / "log.jsonl").is_file()
