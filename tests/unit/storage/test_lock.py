"""Locks exclude other writers, and leave nothing behind in a folder that is deleted meanwhile."""

import json
import os
import shutil
from pathlib import Path

import pytest

from isopix.storage.atomic import LOCK_FILE, exclusive_lock


def test_locks_of_other_names_do_not_exclude_one_another(tmp_path: Path) -> None:
    in_use = pytest.raises(ValueError, match=r"^folder .* is in use by process \d+ on host ")
    with exclusive_lock(tmp_path, "folder"), exclusive_lock(tmp_path, "folder", name="other"), in_use:
        exclusive_lock(tmp_path, "folder").__enter__()


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
        assert json.loads((tmp_path / LOCK_FILE).read_text())["process"] == os.getpid()
    assert (tmp_path / LOCK_FILE).read_text() == ""
