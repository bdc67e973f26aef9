"""The cache of this user: folders that are written atomically, with a manifest of hashes that is verified."""

import json
import os
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from isopix.core.text import error_line, expand_home
from isopix.storage import atomic
from isopix.storage.provenance import hash_bytes, hash_files

VERIFIED_FILE = "verified.json"
UNHASHED = (atomic.MANIFEST, VERIFIED_FILE)
ALWAYS_HASHED = 256 * 2**20  # bytes of an artifact, which are hashed in a fraction of a second

Stamps = dict[str, list[int]]  # of files: what changes when they do


def default_cache() -> Path:
    """Return $ISOPIX_CACHE, or ~/.cache/isopix; without a home folder a temporary one of this process."""
    if given := os.environ.get("ISOPIX_CACHE"):
        return Path(expand_home(given))
    with suppress(RuntimeError):
        return Path.home() / ".cache" / "isopix"
    return Path(_temporary_cache().name)


@cache
def _temporary_cache() -> "TemporaryDirectory[str]":
    return atomic.scratch_folder("cache")


def write_artifact(target: Path, write: Callable[[Path], Mapping[str, Any]]) -> None:
    """Create the folder `target` with files that `write` writes, and a manifest of hashes and its values."""
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(target, ignore_errors=True)
    with atomic.first_folder(target) as folder:
        values = write(folder)
        files = {path.name: path for path in sorted(folder.iterdir()) if path.name not in UNHASHED}
        text = json.dumps({**values, "files": hash_files(files)}, sort_keys=True)
        manifest = {"hash": hash_bytes(text.encode()), "manifest": text}
        (folder / atomic.MANIFEST).write_text(json.dumps(manifest))
        if _is_large(files):
            _remember_verified(folder, _stamps(files))


def read_manifest(folder: Path) -> dict[str, Any] | None:
    """Return the manifest; None if the folder is missing or a hash differs (of files that have changed)."""
    try:
        stored = json.loads((folder / atomic.MANIFEST).read_text())
        text = stored["manifest"]
        manifest: dict[str, Any] = json.loads(text)
        files = {name: folder / name for name in manifest["files"]}
        intact = hash_bytes(text.encode()) == stored["hash"] and _verify(folder, files, manifest["files"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return manifest if intact else None


def _verify(folder: Path, files: Mapping[str, Path], hashes: Mapping[str, str]) -> bool:
    stamps, large = _stamps(files), _is_large(files)
    with suppress(OSError, ValueError):
        if large and json.loads((folder / VERIFIED_FILE).read_bytes()) == stamps:
            return True
    intact = hash_files(files) == hashes
    if large and intact:
        _remember_verified(folder, stamps)
    return intact


def _is_large(files: Mapping[str, Path]) -> bool:
    return sum(path.stat().st_size for path in files.values()) > ALWAYS_HASHED


def _stamps(files: Mapping[str, Path]) -> Stamps:
    """Return size, times and inode of each file: a copy of an artifact has others."""
    found = {name: path.stat() for name, path in files.items()}
    return {
        name: [each.st_size, each.st_mtime_ns, each.st_ctime_ns, each.st_ino] for name, each in found.items()
    }


def _remember_verified(folder: Path, stamps: Stamps) -> None:
    with suppress(OSError, RuntimeError):  # a folder of another user; files are hashed again then
        atomic.write_json(folder / VERIFIED_FILE, stamps)


def folder_problem(folder: Path) -> str:
    """Return in a line what does not work in a folder, which is created: replacing files, or locks."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with atomic.temporary_folder(folder / "test", "a test") as temporary:
            file = temporary / "file"
            for content in (b"old", b"new"):
                atomic.replace_file(file, content)
            if file.read_bytes() != b"new":
                return "a file that was replaced has its old content"
            with atomic.exclusive_lock(file.parent, "folder"), suppress(ValueError):
                atomic.exclusive_lock(file.parent, "folder").__enter__()
                return "file locks do not exclude: two processes could write at the same time"
    except (OSError, RuntimeError, ValueError) as error:
        return error_line(error)
    return ""


def free_bytes(folder: Path) -> int:
    """Return the free bytes of the disk on which a folder is, or will be."""
    there = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    return shutil.disk_usage(there).free


def size_of(folder: Path) -> int:
    """Return the bytes of all files in a folder; 0 if there is none. Some may be deleted meanwhile."""
    total = 0
    for path in folder.rglob("*"):
        with suppress(FileNotFoundError):
            total += path.lstat().st_size if path.is_file() else 0
    return total
