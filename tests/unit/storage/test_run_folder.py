"""Run folders: which folders are runs, or may become one, and who writes to them."""

import pytest

from isopix.storage import atomic, checkpoint
from isopix.storage.atomic import machine
from isopix.storage.run_folder import RunFolder, require_new, start_run
from tests.trained import create_run
from tests.unit.data.refusal import refusal


@pytest.fixture
def run(tmp_path):
    run = create_run(tmp_path / "run")
    run.recipe.write_text("{}")
    return run


def test_an_empty_folder_may_become_a_run_and_others_stay_as_they_are(tmp_path, run):
    assert create_run(tmp_path / "new").checkpoints.is_dir()
    expected = f"run folder {run.path} is not empty; choose another --out, or resume with: isopix resume "
    assert refusal(require_new, run.path) == expected + str(run.path)
    (run.checkpoints / "step-00000000").mkdir()
    (run.checkpoints / "step-00000000" / "imported.json").write_text("{}")
    assert refusal(require_new, run.path) == f"folder {run.path} is not empty; choose another --out"
    (tmp_path / "file").touch()
    assert "is a file; a run folder needs another --out" in refusal(require_new, tmp_path / "file")
    (tmp_path / "link").symlink_to(tmp_path / "missing")
    assert "missing, which does not exist; create it" in refusal(require_new, tmp_path / "link")


@pytest.mark.parametrize("number", range(3))
def test_a_start_that_is_killed_while_it_is_deleted_may_be_started_again(tmp_path, monkeypatch, number):
    calls, own = [], atomic.delete

    def delete(path):
        calls.extend([path] * path.exists())
        if len(calls) > number:
            raise KeyboardInterrupt
        own(path)

    def start():
        with start_run(tmp_path) as run:
            run.recipe.write_text("{}")
            run.log.write_text("{}")
            monkeypatch.setattr(atomic, "delete", delete)
            raise ValueError

    with pytest.raises(KeyboardInterrupt):
        start()
    require_new(tmp_path)


def test_a_run_is_opened_and_what_is_none_is_named(run, tmp_path):
    assert RunFolder.open(run.path) == run
    assert refusal(RunFolder.open, run.path / "x") == f"no folder {run.path / 'x'}"
    assert refusal(RunFolder.open, tmp_path / "x").endswith(f"x; did you mean {run.path}?")
    (tmp_path / "begun").mkdir()
    assert "begun has no recipe.json" in refusal(RunFolder.open, tmp_path / "begun")
    path = checkpoint.step_folder(tmp_path / "a" / "b", 2)
    checkpoint.save_checkpoint(path, {}, {"recipe": {}})
    assert f"{path} is a checkpoint, not a run folder; it is a saved model" in refusal(RunFolder.open, path)
    (tmp_path / "config.json").write_text("{}")
    line = f"is a Hugging Face model; isopix import {tmp_path} OUT makes a run folder of it"
    assert refusal(RunFolder.open, tmp_path) == f"{tmp_path} {line}"


def test_locking_recovers_the_checkpoint_of_a_dead_process(run):
    left = run.checkpoints / f".tmp-step-00000002-999999999@{machine()}"
    checkpoint.save_checkpoint(left, {}, {"state": {"step": 2}})
    with run.lock():
        newest = checkpoint.latest_folder(run.checkpoints)
        assert checkpoint.load_checkpoint(newest).records["state"]["step"] == 2
