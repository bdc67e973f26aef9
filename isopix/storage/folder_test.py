"""Test a folder: what isopix needs of a file system, tried."""

import os
import shutil
import tempfile
from pathlib import Path

from isopix.storage.atomic import replace_file
from isopix.storage.lock import exclusive_lock


def folder_problem(folder: Path) -> str:
    """Return in one line what does not work in a folder; empty if all works. The folder is created.

    A file is replaced by renaming another to its name, a folder is renamed, and a lock that is held cannot be
    taken again. Nothing is left behind.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix=".test-") as name:
            return _try(Path(name))
    except (OSError, RuntimeError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        return " ".join(reason.split()) or type(error).__name__


def _try(folder: Path) -> str:
    file, inner = folder / "file", folder / "inner"
    replace_file(file, b"old")
    replace_file(file, b"new")
    if file.read_bytes() != b"new":
        return "a file that was replaced has its old content"
    inner.mkdir()
    inner.rename(folder / "renamed")
    with exclusive_lock(folder, "folder"):
        try:
            with exclusive_lock(folder, "folder"):
                return "file locks do not exclude: two processes could write at the same time"
        except ValueError:
            return ""


def free_bytes(folder: Path) -> int:
    """Return the free bytes of the disk on which a folder is, or will be."""
    there = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    return shutil.disk_usage(there).free


def size_of(folder: Path) -> int:
    """Return the bytes of all files in a folder; 0 if there is none."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            path = Path(place, name)
            total += 0 if path.is_symlink() or not path.exists() else path.stat().st_size
    return total
