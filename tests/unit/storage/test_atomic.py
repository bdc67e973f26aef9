"""A file is replaced whole, or not at all."""

import errno
import json
from pathlib import Path

import pytest

from isopix.storage import atomic


def test_write_json_that_fails_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "state.json"
    atomic.write_json(path, {"step": 1})

    def fill_up(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(atomic.os, "fsync", fill_up)
    with pytest.raises(RuntimeError, match=f"{path} cannot be written: no space left on device"):
        atomic.write_json(path, {"step": 2})
    assert json.loads(path.read_text()) == {"step": 1}
    assert list(tmp_path.iterdir()) == [path]


def test_a_process_of_another_user_is_running(monkeypatch):
    def forbidden(pid, number):
        raise PermissionError

    monkeypatch.setattr(atomic.os, "kill", forbidden)
    assert atomic.temporary_target(Path(".tmp-run-999999999")) is None
