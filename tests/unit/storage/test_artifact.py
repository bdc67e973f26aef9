"""An artifact is complete or does not exist, and damage is detected."""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from isopix.storage.cache import MANIFEST_FILE, read_manifest, write_artifact


def write(folder: Path) -> dict[str, int]:
    (folder / "content").write_bytes(b"abc")
    return {"answer": 42}


def test_an_artifact_is_written_atomically_with_its_manifest(tmp_path: Path) -> None:
    write_artifact(tmp_path / "a" / "key", write)
    manifest = read_manifest(tmp_path / "a" / "key")
    assert manifest is not None
    assert manifest["answer"] == 42
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["key"]


def test_a_failed_write_leaves_nothing(tmp_path: Path) -> None:
    def fail(folder: Path) -> dict[str, int]:
        write(folder)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_artifact(tmp_path / "key", fail)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["content", MANIFEST_FILE])
def test_a_changed_or_missing_file_is_detected(tmp_path: Path, name: str) -> None:
    assert read_manifest(tmp_path / "key") is None
    for damage in (lambda path: path.write_bytes(b"abd"), Path.unlink):
        write_artifact(tmp_path / "key", write)
        damage(tmp_path / "key" / name)
        assert read_manifest(tmp_path / "key") is None


def _abandoned(folder: Path, name: str, age: float = 0) -> Path:
    path = folder / name
    (path / "key").mkdir(parents=True)
    (path / "key" / "images.npy").write_bytes(b"abc")
    for each in (path / "key" / "images.npy", path / "key", path):
        os.utime(each, (time.time() - age,) * 2)
    return path


def test_what_killed_writers_left_is_deleted_by_the_next_one(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    host = socket.gethostname()
    gone = [
        _abandoned(tmp_path, f".writing-{host}-{ended.pid}-abcd_123"),
        _abandoned(tmp_path, ".writing-abcd_123", age=90_000),
        _abandoned(tmp_path, ".writing-another.host-7-abcd_123", age=90_000),
    ]
    kept = [
        _abandoned(tmp_path, f".writing-{host}-{os.getppid()}-abcd_123"),
        _abandoned(tmp_path, f".writing-{host}-{os.getpid()}-abcd_123"),
        _abandoned(tmp_path, f".writing-another.host-{ended.pid}-abcd_123"),
        _abandoned(tmp_path, "writing", age=90_000),
    ]
    write_artifact(tmp_path / "key", write)
    assert not any(path.exists() for path in gone)
    assert all(path.is_dir() for path in kept)
