"""A file is replaced whole, or not at all; locks exclude other writers, and leave nothing behind."""

import errno
import json
import os
import shutil
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


def test_a_process_of_another_user_is_running(monkeypatch):
    monkeypatch.setattr(atomic.os, "kill", Mock(side_effect=PermissionError))
    assert atomic.temporary_target(Path(".tmp-run-999999999")) is None


def test_an_error_names_the_paths_that_files_will_have() -> None:
    text = f"a/.tmp-run-1-{os.getpid()}/.tmp-log-{os.getpid()}: disk full, in .tmp-run-1-{os.getpid()}"
    assert final_paths(text) == "a/run-1/log: disk full, in run-1"


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
