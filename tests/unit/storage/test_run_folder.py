import os
import socket
import subprocess
import sys

import pytest

from isopix.storage import checkpoint
from isopix.storage.run_folder import RunFolder, require_new
from tests.run_folders import create_run

HOLDER = """
import sys, time
from pathlib import Path
from isopix.storage.run_folder import RunFolder
with RunFolder(Path(sys.argv[1])).lock():
    print("locked", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def run(tmp_path):
    run = create_run(tmp_path / "run")
    run.recipe.write_text("{}")
    return run


def refusal(function, *arguments):
    with pytest.raises(ValueError) as error:  # noqa: PT011 - compared whole by the caller
        function(*arguments)
    return str(error.value)


def lock(run):
    with run.lock():
        pass


def test_every_file_of_a_run_has_its_place(run):
    names = {
        "recipe.json",
        "environment.json",
        "log.jsonl",
        "checkpoints",
        "samples",
        "probes",
        "report.html",
    }
    paths = [run.recipe, run.environment, run.log, run.checkpoints, run.samples, run.probes, run.report]
    assert {path.name for path in paths} == names
    assert {path.parent for path in paths} == {run.path}


def test_an_empty_folder_may_become_a_run(tmp_path):
    assert create_run(tmp_path).checkpoints.is_dir()


def test_a_folder_with_anything_in_it_is_not_overwritten(run):
    expected = f"run folder {run.path} is not empty; choose another --out, or resume with: isopix resume "
    assert refusal(require_new, run.path) == expected + str(run.path)


def test_resuming_is_not_suggested_for_other_folders(tmp_path):
    (tmp_path / "mine.txt").touch()
    assert refusal(require_new, tmp_path) == f"folder {tmp_path} is not empty; choose another --out"


def test_a_suggested_command_can_be_pasted(tmp_path):
    run = create_run(tmp_path / "my run")
    run.recipe.touch()
    assert refusal(require_new, run.path).endswith(f"resume with: isopix resume '{run.path}'")


def test_a_path_through_a_file_is_an_error(tmp_path):
    (tmp_path / "file").touch()
    path = tmp_path / "file" / "run"
    assert refusal(require_new, path) == f"run folder {path} cannot be created: part of its path is a file"


def test_a_file_is_not_a_run_folder(tmp_path):
    path = tmp_path / "file"
    path.touch()
    assert refusal(require_new, path) == f"{path} is a file; a run folder needs another --out"


def test_a_run_is_opened_where_it_was_created(run):
    assert RunFolder.open(run.path) == run


def test_a_missing_run_is_an_error(tmp_path):
    assert refusal(RunFolder.open, tmp_path / "x") == f"run folder {tmp_path / 'x'} does not exist"


def test_another_folder_is_an_error(tmp_path):
    assert refusal(RunFolder.open, tmp_path) == f"{tmp_path} has no recipe.json; it is not a run folder"


def test_a_checkpoint_is_not_a_run_and_its_run_is_named(run):
    path = checkpoint.step_folder(run.checkpoints, 2)
    checkpoint.save_checkpoint(path, {}, {"recipe": {}})
    expected = f"{path} is a checkpoint, not a run folder; give {run.path}"
    assert refusal(RunFolder.open, path) == expected


def test_a_model_folder_without_a_run_is_read_only(tmp_path):
    checkpoint.save_checkpoint(tmp_path / "model", {}, {"recipe": {}})
    expected = "is a checkpoint, not a run folder; it is a saved model, which is read-only: "
    assert refusal(RunFolder.open, tmp_path / "model").startswith(f"{tmp_path / 'model'} {expected}")


def test_a_hugging_face_model_is_an_error_that_says_how_to_convert_it(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    line = f"is a Hugging Face model; isopix convert huggingface {tmp_path} OUT converts it to a run folder"
    assert refusal(RunFolder.open, tmp_path) == f"{tmp_path} {line}"


def test_resuming_is_not_suggested_for_an_imported_model(tmp_path):
    run = create_run(tmp_path / "run")
    run.recipe.write_text("{}")
    assert "resume with: isopix resume" in refusal(require_new, run.path)
    (run.checkpoints / "step-00000000").mkdir()
    (run.checkpoints / "step-00000000" / "imported.json").write_text("{}")
    assert refusal(require_new, run.path) == f"folder {run.path} is not empty; choose another --out"


def test_a_locked_run_names_its_holder(run):
    with run.lock():
        expected = f"run folder {run.path} is in use by process {os.getpid()} on host {socket.gethostname()}"
        assert refusal(lock, run) == expected


def test_a_lock_without_an_owner_yet_is_respected(run):
    with run.lock():
        (run.path / "lock").write_text("")
        assert refusal(lock, run) == f"run folder {run.path} is in use by another process"


def test_a_lock_is_released_after_an_error(run):
    with pytest.raises(KeyError), run.lock():
        raise KeyError
    lock(run)


def test_a_killed_process_does_not_block(run):
    command = [sys.executable, "-c", HOLDER, str(run.path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "locked\n"
        assert f"is in use by process {holder.pid} on host" in refusal(lock, run)
        holder.kill()
    lock(run)


def test_locking_recovers_the_checkpoint_of_a_dead_process(run):
    process = subprocess.Popen(["true"])
    process.wait()
    checkpoint.save_checkpoint(
        run.checkpoints / f".tmp-step-00000002-{process.pid}", {}, {"state": {"step": 2}}
    )
    with run.lock():
        assert checkpoint.load_latest(run.checkpoints).checkpoint.records["state"]["step"] == 2
