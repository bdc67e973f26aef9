"""The cache of this user: folders that are written atomically, with a manifest of hashes that is verified."""

import json
import os
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from isopix.core.text import expand_home
from isopix.storage import atomic
from isopix.storage.provenance import hash_bytes, hash_files

FILE_INDEX = "file-hashes-1.sqlite"  # in the cache


def default_cache() -> Path:
    """Return $ISOPIX_CACHE, or ~/.cache/isopix. Raises RuntimeError without a home folder."""
    given = os.environ.get("ISOPIX_CACHE")
    return Path(expand_home(given)) if given else Path.home() / ".cache" / "isopix"


def file_index() -> Path:
    """Return where the hashes of files are kept (`hash_files`)."""
    return default_cache() / FILE_INDEX


def write_artifact(target: Path, write: Callable[[Path], Mapping[str, Any]]) -> dict[str, Any]:
    """Create the folder `target` with files that `write` writes; return its manifest: hashes, and values."""
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(target, ignore_errors=True)
    with atomic.first_folder(target) as folder:
        values = write(folder)
        files = {path.name: path for path in sorted(folder.iterdir())}
        manifest = {**values, "files": hash_files(files)}
        text = json.dumps(manifest, sort_keys=True)
        stored = {"hash": hash_bytes(text.encode()), "manifest": text}
        (folder / atomic.MANIFEST).write_text(json.dumps(stored))
    return manifest


def read_manifest(folder: Path) -> dict[str, Any] | None:
    """Return the manifest; None if the folder is missing or a hash differs (of files that have changed)."""
    try:
        stored = json.loads((folder / atomic.MANIFEST).read_text())
        text = stored["manifest"]
        manifest: dict[str, Any] = json.loads(text)
        files = {name: folder / name for name in manifest["files"]}
        intact = hash_bytes(text.encode()) == stored["hash"]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return manifest if intact and hash_files(files, file_index()) == manifest["files"] else None


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
