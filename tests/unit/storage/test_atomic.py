"""A file is replaced whole, or not at all; locks exclude other writers, and leave nothing behind."""

import errno
import json
import os
import shutil
import tempfile
from pathlib import Path
from unittest.mock import Mock

import pytest

from isopix.storage import atomic
from isopix.storage.atomic import LOCK_FILE, exclusive_lock, final_paths


def test_write_json_that_fails_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "state.json"
    atomic.write_json(path, {"step": 1})
    full = OSError(errno.ENOSPC, "No space left on device")
    monkeypatch.setattr(atomic.os, "fsync", Mock(side_effect=full))
    with pytest.raises(RuntimeError, match=f"{path} cannot be written: no space left on device"):
        atomic.write_json(path, {"step": 2})
    assert json.loads(path.read_text()) == {"step": 1}
    assert list(tmp_path.iterdir()) == [path]


LEFT = [f".tmp-{name}-999999999@{atomic.machine()}" for name in ("run-1", "a.json")]
NOT_LEFT = [f".tmp-a-{os.getppid()}@{atomic.machine()}", ".tmp-a-999999999@0000", ".tmp-a-999999999", "a"]


@pytest.mark.parametrize("write", [atomic.temporary_path, lambda path: atomic.replace_file(path, b"")])
def test_what_killed_processes_left_is_deleted_by_the_next_that_writes_there(tmp_path, monkeypatch, write):
    """Not what belongs to one that runs, to one on another machine, and to other programs."""
    for name in (*LEFT, *NOT_LEFT):
        (tmp_path / name).mkdir()
    (tmp_path / LEFT[0] / "file").touch()
    with monkeypatch.context() as patch:
        patch.setattr(atomic.os, "kill", Mock(side_effect=PermissionError))  # of another user
        atomic.sweep(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {*LEFT, *NOT_LEFT}
    write(tmp_path / "own")
    assert {path.name for path in tmp_path.iterdir()} - {"own"} == {*NOT_LEFT}
    os.utime(tmp_path / NOT_LEFT[1], (0, 0))
    atomic.sweep(tmp_path)
    assert not (tmp_path / NOT_LEFT[1]).exists()


def test_folders_for_temporary_files_are_swept(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / f"{LEFT[0]}-a_1").mkdir()
    with atomic.scratch_folder("test") as folder:
        assert [str(path) for path in tmp_path.iterdir()] == [folder]
    assert list(tmp_path.iterdir()) == []


def test_an_error_names_the_paths_that_files_will_have(tmp_path) -> None:
    run, log = (atomic.temporary_path(tmp_path / name) for name in ("run-1", "log"))
    assert final_paths(f"{run}/{log.name}: disk full") == f"{tmp_path}/run-1/log: disk full"


def test_a_deleted_folder_stays_deleted(tmp_path: Path) -> None:
    with exclusive_lock(tmp_path / "run", "folder"):
        shutil.rmtree(tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


def test_a_lock_that_is_a_link_is_refused_and_its_target_left(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("own")
    (tmp_path / LOCK_FILE).symlink_to(tmp_path / "target")
    with pytest.raises(OSError, match="symbolic link"):
        exclusive_lock(tmp_path, "folder").__enter__()
    assert (tmp_path / "target").read_text() == "own"


def test_the_file_stays_and_names_its_owner_only_while_it_is_held(tmp_path: Path) -> None:
    with exclusive_lock(tmp_path, "folder"):
        assert (tmp_path / LOCK_FILE).read_text().startswith(f"process {os.getpid()} on host ")
    assert (tmp_path / LOCK_FILE).read_text() == ""
