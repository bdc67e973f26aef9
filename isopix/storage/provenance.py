"""Provenance of a run or a file in it: device, versions, commit and command; hashes of files and content."""

import hashlib
import math
import os
import sqlite3
import stat
import subprocess
import sys
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from datetime import UTC, datetime
from functools import cache, partial
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import Any

from isopix.core.progress import track
from isopix.core.registry import plugins
from isopix.core.version import __version__

CHECKOUT = Path(__file__).parents[2]
DIGEST_BYTES = 16
# A file that is written twice within one tick of its time stamps looks the same after the second time, so
# that younger ones are read again. File systems have ticks of up to 2 seconds (FAT).
TICK = 2 * 10**9  # nanoseconds
FILES_PER_CHUNK = 64  # read by a thread at a time
BLAKE2B = partial(hashlib.blake2b, digest_size=DIGEST_BYTES)

Stamp = tuple[int, int, int]  # size, and times of the last change of content and of status in ns


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


def hash_files(
    files: Mapping[str, str | Path], index: Path | None = None, limit: float = math.inf
) -> dict[str, str]:
    """Return the hash of each file's content by name, or in words why there is none.

    With a file `index`, only those are read again whose size or times differ, or that had just changed; those
    of more than `limit` bytes, which nobody reads, are not.
    """
    start, paths = time.time_ns(), [os.fspath(each) for each in files.values()]
    stamps = list(map(_stamp, paths))
    digests = _known(index, paths, stamps)
    unread = [i for i, digest in enumerate(digests) if digest is None]
    threads = min(32, (os.cpu_count() or 1) + 4)  # hashing frees the GIL, and disks take many requests
    size = max(1, min(FILES_PER_CHUNK, len(unread) // threads))
    with track("reading files", len(unread)) as count, ThreadPool(threads) as pool:
        found = pool.imap(lambda i: hash_file(paths[i], limit), unread, size)
        for done, (i, digest) in enumerate(zip(unread, found, strict=True), start=1):
            digests[i] = digest
            count(done)
    old = [i for i in unread if isinstance(digests[i], bytes) and max(stamps[i][1:]) < start - TICK]
    _keep(index, [(os.fsencode(paths[i]), *stamps[i], digests[i]) for i in old])
    texts = (each.hex() if isinstance(each, bytes) else str(each) for each in digests)
    return dict(zip(files, texts, strict=True))


def hash_tree(files: Mapping[str, str | Path], index: Path | None = None, limit: float = math.inf) -> str:
    """Return one hash of the names and contents of files, which are hashed as `hash_files` does."""
    named = hash_files(files, index, limit).items()
    return hash_bytes(*(f"{name}/{digest}".encode("utf-8", "surrogateescape") for name, digest in named))


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


def _stamp(path: str) -> Stamp:
    with suppress(OSError, ValueError):
        status = os.stat(path)  # noqa: PTH116  a Path for each of millions of files takes longer than the call
        if stat.S_ISREG(status.st_mode):
            return status.st_size, status.st_mtime_ns, status.st_ctime_ns
    return -1, -1, -1


def _known(index: Path | None, paths: Sequence[str], stamps: Sequence[Stamp]) -> list[bytes | str | None]:
    query = "SELECT digest FROM files WHERE path = ? AND size = ? AND modified = ? AND changed = ?"
    if index is not None and index.exists():
        with suppress(sqlite3.Error), closing(_open_index(index)) as table:  # a damaged index is none
            keys = ((os.fsencode(path), *stamp) for path, stamp in zip(paths, stamps, strict=True))
            rows = (table.execute(query, key).fetchone() for key in keys)
            return [row and row[0] for row in rows]
    return [None] * len(paths)


def _keep(index: Path | None, rows: Sequence[tuple[object, ...]]) -> None:
    if index is None or not rows:
        return
    try:
        index.parent.mkdir(parents=True, exist_ok=True)
        with closing(_open_index(index)) as table, table:
            table.executemany("REPLACE INTO files VALUES (?, ?, ?, ?, ?)", rows)
    except (OSError, sqlite3.OperationalError):  # read-only, in use or without room
        pass
    except sqlite3.DatabaseError:
        index.unlink(missing_ok=True)


def _open_index(index: Path) -> sqlite3.Connection:
    table = sqlite3.connect(index)
    columns = "path BLOB PRIMARY KEY, size INT, modified INT, changed INT, digest BLOB"
    table.execute(f"CREATE TABLE IF NOT EXISTS files ({columns})")
    return table
