"""A checkpoint belongs to its run and to its step, and a run to its lists of images."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from isopix.api.training import pretrain, resume
from isopix.pretrained.run import Run
from isopix.runs.load import find_checkpoint, newest_checkpoint
from isopix.storage.checkpoint import load_checkpoint, save_checkpoint
from isopix.storage.npy import npy_bytes
from tests.unit.data.refusal import refusal

QUICK = ["depth=1", "width=16", "steps=4", "batch_size=8", "checkpoint_every=2", "evaluate_images=8"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two runs of the same recipe and seed."""
    folder = tmp_path_factory.mktemp("runs")
    for name in ("a", "b"):
        pretrain("igpt.digits", data="digits", limit=40, out=folder / name, overrides=QUICK)
    return folder


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained / "a", tmp_path / "a"))


def test_every_checkpoint_has_the_id_of_its_run_and_no_two_runs_the_same(trained: Path) -> None:
    ids = [json.loads((trained / name / "environment.json").read_text())["run_id"] for name in ("a", "b")]
    assert ids[0] != ids[1]
    for path in (trained / "a" / "checkpoints").iterdir():
        assert load_checkpoint(path).records["state"]["run_id"] == ids[0]


def test_a_checkpoint_of_another_run_is_refused_and_the_previous_one_taken(trained: Path, run: Path) -> None:
    newest = newest_checkpoint(run)
    shutil.rmtree(newest)
    shutil.copytree(trained / "b" / "checkpoints" / newest.name, newest)
    found, [damaged] = find_checkpoint(run)
    assert found.records["state"]["step"] == 2
    assert "state.json has run id" in damaged
    assert "run id" in refusal(find_checkpoint, newest)


def test_a_renamed_checkpoint_is_refused(run: Path) -> None:
    newest = newest_checkpoint(run)
    renamed = newest.rename(newest.with_name("step-00000009"))
    _, [damaged] = find_checkpoint(run)
    assert f"checkpoint {renamed}: state.json has step 4, which is not that of the folder's name" in damaged


def without_ids(run: Path) -> None:
    """Rewrite a run as earlier versions wrote it."""
    environment = json.loads((run / "environment.json").read_text())
    del environment["run_id"]
    (run / "environment.json").write_text(json.dumps(environment))
    for path in (run / "checkpoints").iterdir():
        found = load_checkpoint(path)
        for name in ("run_id", "files"):
            del found.records["state"][name]
        save_checkpoint(path, found.tensors, found.records)


def test_a_run_of_an_earlier_version_is_resumed_and_gets_no_id(run: Path) -> None:
    without_ids(run)
    shutil.rmtree(newest_checkpoint(run))
    resume(run)
    assert find_checkpoint(run)[0].records["state"]["run_id"] is None
    assert find_checkpoint(run)[1] == []


def test_a_damaged_environment_does_not_keep_a_run_from_being_loaded(run: Path) -> None:
    (run / "environment.json").write_text("{")
    assert find_checkpoint(run)[0].records["state"]["step"] == 4


@pytest.mark.parametrize("use", [resume, lambda run: Run(run).model], ids=["resume", "load"])
def test_another_list_of_training_images_is_refused(run: Path, use) -> None:
    (run / "training-images.npy").write_bytes(npy_bytes(np.arange(3)))
    assert "training-images.npy does not have the SHA-256 that the checkpoint records" in refusal(use, run)


def test_a_checkpoint_without_an_id_is_refused_in_a_run_that_has_one(run: Path) -> None:
    newest = newest_checkpoint(run)
    found = load_checkpoint(newest)
    del found.records["state"]["run_id"]
    save_checkpoint(newest, found.tensors, found.records)
    assert "state.json has run id None; that of" in refusal(find_checkpoint, newest)


def test_the_best_checkpoint_of_another_run_is_refused(trained: Path, run: Path) -> None:
    shutil.copytree(newest_checkpoint(trained / "b"), run / "best")
    assert "state.json has run id" in refusal(find_checkpoint, run / "best")
    shutil.rmtree(run / "best")
    shutil.copytree(newest_checkpoint(run), run / "best")
    assert find_checkpoint(run / "best")[1] == []
