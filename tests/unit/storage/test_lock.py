"""Locks exclude other writers, and leave nothing behind in a folder that is deleted meanwhile."""

import shutil
from pathlib import Path

import pytest

from isopix.storage.lock import exclusive_lock


def test_locks_of_other_names_do_not_exclude_one_another(tmp_path: Path) -> None:
    in_use = pytest.raises(ValueError, match=r"^folder .* is in use by process \d+ on host ")
    with exclusive_lock(tmp_path, "folder"), exclusive_lock(tmp_path, "folder", name="other"), in_use:
        exclusive_lock(tmp_path, "folder").__enter__()


def test_a_deleted_folder_stays_deleted(tmp_path: Path) -> None:
    with exclusive_lock(tmp_path / "run", "folder"):
        shutil.rmtree(tmp_path / "run")
    assert list(tmp_path.iterdir()) == []
