"""Provenance of a run or a file in it: device, versions, commit and command; hashes of files and content."""

import hashlib
import math
import os
import subprocess
import sys
import uuid
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import cache, partial
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import Any

from isopix.core.registry import plugins
from isopix.core.version import __version__

CHECKOUT = Path(__file__).parents[2]
DIGEST_BYTES = 16
BLAKE2B = partial(hashlib.blake2b, digest_size=DIGEST_BYTES)


def environment(runtime: Mapping[str, Any]) -> dict[str, Any]:
    """Return a new id of the run, its `runtime`, the commit if any, the command and working directory."""
    commit = git_commit(CHECKOUT)
    return {
        "run_id": uuid.uuid4().hex,
        **runtime,
        "isopix": __version__,
        **({"commit": commit} if commit else {}),
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "folder": str(Path.cwd()),
        "command": ["isopix", *sys.argv[1:]],
    }


def with_provenance(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values with the time, the command as typed, its working directory and any plugins."""
    written = datetime.now(UTC).isoformat(timespec="seconds")
    command = ["isopix", *sys.argv[1:]]
    loaded = plugin_records() if plugins() else {}
    return {**values, "written": written, "folder": str(Path.cwd()), "command": command, **loaded}


def call_record(call: Mapping[str, Any]) -> dict[str, Any]:
    """Return the call of a verb for its record: with the time, the version and the commit, too."""
    return with_provenance({**call, "isopix": __version__, "commit": _commit()})


@cache
def _commit() -> str | None:
    return git_commit(CHECKOUT)


def plugin_records() -> dict[str, Any]:
    """Return the loaded plugins for records of a run and of its results, as `plugins`."""
    return {"plugins": [{**plugin._asdict(), "parts": list(plugin.parts)} for plugin in plugins()]}


def settings_hash(settings: Mapping[str, Any]) -> str:
    """Return six digits of a hash, for file names: equal settings replace a file, others add one."""
    return hashlib.sha256(repr(sorted(settings.items())).encode()).hexdigest()[:6]


def git_commit(checkout: Path) -> str | None:
    """Return the commit of a checkout, `-dirty` if changed; None for an installed package and without git."""
    if not (checkout / ".git").exists():
        return None
    command = ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        done = subprocess.run(command, cwd=checkout, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None


def hash_bytes(*pieces: bytes) -> str:
    """Return the blake2b hash of the pieces, each preceded by its length, so that their borders count."""
    state = BLAKE2B()
    for piece in pieces:
        state.update(len(piece).to_bytes(8, "little"))
        state.update(piece)
    return state.hexdigest()


def hash_files(files: Mapping[str, Path]) -> dict[str, str]:
    """Return the hash of each file's content by name; in threads, because hashing releases the GIL."""
    with ThreadPool() as pool:  # whose end does not wait for a large file, so that a stop signal does not
        digests = pool.map(hash_file, map(str, files.values()))
    return dict(zip(files, map(_text, digests), strict=True))


def hash_tree(files: Mapping[str, Path]) -> str:
    """Return one hash of the names and contents of files."""
    return hash_digests(hash_files(files).items())


def hash_digests(named: Iterable[tuple[str, bytes | str]]) -> str:
    """Return one hash of the names of files and of what `hash_file` returns of each."""
    return hash_bytes(
        *(f"{name}/{_text(digest)}".encode("utf-8", "surrogateescape") for name, digest in named)
    )


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file. Raises OSError."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def hash_file(path: str, limit: float = math.inf) -> bytes | str:
    """Return the hash of a file's content, or in words why there is none; above the limit, its size."""
    if not os.path.isfile(path):  # noqa: PTH113  a Path for each of millions of files takes longer
        return "not a regular file"
    try:
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123
            size = os.fstat(file.fileno()).st_size
            return hashlib.file_digest(file, BLAKE2B).digest() if size <= limit else f"{size} bytes"
    except OSError as error:
        return f"unreadable: {error.strerror}"


def _text(digest: bytes | str) -> str:
    return digest if isinstance(digest, str) else digest.hex()
