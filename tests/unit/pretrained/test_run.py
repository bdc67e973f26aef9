"""A run folder in Python: its metrics, its model, and warnings about what was skipped."""

import logging
import os
import shutil
from pathlib import Path

import pytest
import torch

import isopix
from isopix.data.dataset import DataConfig
from isopix.pretrained.images import leakage_warning
from isopix.pretrained.run import RunMetrics
from tests.tiny_runs import Copy
from tests.unit.data.refusal import refusal


def test_metrics_are_the_latest_of_each_split(pristine: Path, tmp_path: Path) -> None:
    run = isopix.Run(pristine / "ar")
    assert run.metrics.train["step"] == 4
    assert run.metrics.validation["step"] == 4
    assert run.metrics.test["loss_nats"] > 0
    assert [record["step"] for record in run.metrics.history if record["kind"] == "train"] == [1, 2, 3, 4]
    assert (run.recipe.train.steps, os.fspath(run)) == (4, str(pristine / "ar"))
    assert "has no recipe.json" in refusal(isopix.Run, tmp_path)


def test_a_run_without_a_log_has_no_metrics(copy_of: Copy) -> None:
    run = isopix.Run(copy_of("ar", "run"))
    (run.folder / "log.jsonl").unlink()
    assert run.metrics == RunMetrics({}, {}, {}, ())


def test_its_model_is_loaded_once(pristine: Path) -> None:
    run = isopix.Run(pristine / "ar", device="cpu")
    assert run.model is run.model
    assert torch.equal(run.model.sample(2), isopix.load(run, device="cpu").sample(2))


def test_damaged_checkpoints_are_skipped_with_a_warning(
    copy_of: Copy, caplog: pytest.LogCaptureFixture
) -> None:
    run = copy_of("ar", "run")
    older = max((run / "checkpoints").glob("step-*"))
    damaged = shutil.copytree(older, run / "checkpoints/step-00000005")
    (damaged / "model.safetensors").write_bytes(b"damaged")
    with caplog.at_level(logging.WARNING, "isopix"):
        isopix.sample(run, 1, device="cpu")
    assert "skipped: checkpoint " in caplog.text


@pytest.mark.parametrize(
    ("train_on_validation", "source", "count"),
    [(True, None, 1), (True, "SELF", 1), (True, "digits", 0), (False, None, 0), (False, "SELF", 0)],
)
def test_a_run_refitted_on_validation_images_gives_a_leakage_warning(
    tmp_path: Path, train_on_validation: bool, source: str | None, count: int
) -> None:
    own = str(tmp_path.resolve())
    data = DataConfig(source=own, rows=8, cols=8, train_on_validation=train_on_validation)
    assert len(leakage_warning(data, own if source == "SELF" else source)) == count
