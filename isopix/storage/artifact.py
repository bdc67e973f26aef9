"""Artifacts: folders that are written atomically, with a manifest of hashes that is verified on reading."""

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from isopix.storage.hashing import hash_bytes, hash_files

MANIFEST_FILE = "manifest.json"


def write_artifact(target: Path, write: Callable[[Path], Mapping[str, Any]]) -> None:
    """Create the folder `target` with the files that `write` puts into an empty folder.

    The manifest has the values that `write` returns and the hash of every file. If another process creates
    the folder first, its content is kept. Raises OSError.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(target, ignore_errors=True)
    with TemporaryDirectory(prefix=".writing-", dir=target.parent, ignore_cleanup_errors=True) as temporary:
        folder = Path(temporary) / target.name
        folder.mkdir()
        values = write(folder)
        files = {path.name: path for path in sorted(folder.iterdir())}
        text = json.dumps({**values, "files": hash_files(files)}, sort_keys=True)
        (folder / MANIFEST_FILE).write_text(json.dumps({"hash": hash_bytes(text.encode()), "manifest": text}))
        try:
            folder.rename(target)
        except OSError:
            if not target.is_dir():  # else another process was faster
                raise


def read_manifest(folder: Path) -> dict[str, Any] | None:
    """Return the manifest of an artifact, or None if the folder does not exist or a hash differs."""
    try:
        stored = json.loads((folder / MANIFEST_FILE).read_text())
        text = stored["manifest"]
        manifest: dict[str, Any] = json.loads(text)
        files = {name: folder / name for name in manifest["files"]}
        intact = hash_bytes(text.encode()) == stored["hash"] and hash_files(files) == manifest["files"]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return manifest if intact else None
