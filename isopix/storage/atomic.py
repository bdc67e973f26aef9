"""Atomic writes that survive a kill or a power failure, and locks: one process at a time in a folder."""

import errno
import hashlib
import json
import os
import re
import shutil
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import Any

from filelock import FileLock, Timeout

from isopix.core.files import open_file, read_regular
from isopix.core.text import csv_text

MANIFEST = "manifest.json"  # the last file of a folder that is written
TEMPORARY_NAME = re.compile(r"\.tmp-(?P<target>.+)-(?P<pid>[1-9]\d{0,8})@(?P<machine>[0-9a-f]{4})(-\w+)?")
DAY = 86_400  # seconds
DISK_FULL_ERRNOS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # disk, user quota, process limit
LOCK_FILE = "lock"
OWNER = "process "  # begins the text of a lock that is held, or whose holder was killed
POLL_SECONDS = 0.5  # between attempts to get a lock that another process holds


def temporary_path(path: Path) -> Path:
    """Return where this process writes what is renamed to `path`, in a folder that is swept before."""
    _sweep_once(path.parent.resolve())
    return path.with_name(f".tmp-{path.name}-{os.getpid()}@{machine()}")


def scratch_folder(name: str) -> TemporaryDirectory[str]:
    """Return a new folder in the system's folder of temporary files, which is swept before."""
    prefix = temporary_path(Path(gettempdir(), f"isopix-{name}")).name
    return TemporaryDirectory(prefix=f"{prefix}-", ignore_cleanup_errors=True)


def final_paths(text: str) -> str:
    """Return an error's text with the paths that the files and folders of this process are renamed to."""
    return re.sub(rf"\.tmp-([^/]+?)-{os.getpid()}@{machine()}", r"\1", text)


def is_temporary(path: Path) -> bool:
    """Return whether a path has the form of `temporary_path`."""
    return TEMPORARY_NAME.fullmatch(path.name) is not None


def sweep(folder: Path) -> None:
    """Delete what killed processes were writing in a folder; what they had completed gets its name."""
    for path in sorted(folder.glob(".tmp-*")):
        match = TEMPORARY_NAME.fullmatch(path.name)
        with suppress(OSError):  # of another user
            if match and _is_abandoned(path, match):
                target = path.with_name(match["target"])
                complete = (path / MANIFEST).is_file() and not target.exists()
                path.rename(target) if complete else delete(path)


_sweep_once = cache(sweep)  # before this process writes there, so that what has its id is not its own


def _is_abandoned(path: Path, match: re.Match[str]) -> bool:
    """Whether the process that was writing has ended, or, on another machine, has not written for a day."""
    if match["machine"] != machine():
        return time.time() - path.lstat().st_mtime > DAY
    try:
        os.kill(int(match["pid"]), 0)
    except ProcessLookupError:
        return True
    except PermissionError:  # of another user
        return False
    return int(match["pid"]) == os.getpid()  # of an earlier process with the id of this one


@cache
def machine() -> str:
    """Return a hash of this machine, or container, on which ids of processes are unique."""
    namespace = Path("/proc/self/ns/pid")
    processes = namespace.stat().st_ino if namespace.exists() else 0
    return hashlib.blake2b(f"{socket.gethostname()} {processes}".encode(), digest_size=2).hexdigest()


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file; it is on the disk when this returns."""
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def write_json(path: Path, values: Mapping[str, Any]) -> None:
    """Replace the file atomically. Raises ValueError on nan."""
    replace_file(path, json_bytes(values))


def write_csv(path: Path, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Replace the file atomically, with rows as in `csv_text`."""
    replace_file(path, csv_text([columns, *rows]).encode())


def replace_file(path: Path, data: bytes) -> None:
    """Replace the file atomically: a reader sees the old content or the new."""
    temporary = temporary_path(path)
    with report_disk_full(str(path), path.parent):
        try:
            write_bytes(temporary, data)
            temporary.rename(path)
        finally:
            temporary.unlink(missing_ok=True)
        fsync_folder(path.parent)


def json_bytes(values: Mapping[str, Any]) -> bytes:
    """Return indented JSON; raises ValueError on nan and infinity, which JSON cannot represent."""
    return (json.dumps(values, indent=2, allow_nan=False) + "\n").encode()


def read_json(path: Path) -> dict[str, Any]:
    """Return a JSON object. Raises ValueError, which begins with the file's name, or OSError."""
    text = read_regular(path)
    try:
        values = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path.name} is not JSON: {error}") from None
    if not isinstance(values, dict):
        raise ValueError(f"{path.name} is not JSON: it is not an object")
    return values


def fsync_folder(folder: Path) -> None:
    """Make the names inside a folder survive a power failure (fsync of a file does not)."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with report_disk_full(f"folder {folder}", folder):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def delete(path: Path) -> None:
    """Delete a file, a folder with all that is in it, or a link alone; nothing if there is none."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


@contextmanager
def temporary_folder(target: Path, what: str) -> Iterator[Path]:
    """Yield a new folder next to `target`, to be filled and renamed to it; it is deleted if it was not."""
    temporary = temporary_path(target)
    with report_disk_full(what, target.parent):
        try:
            temporary.mkdir()
            yield temporary
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


@contextmanager
def first_folder(target: Path) -> Iterator[Path]:
    """Yield a new folder, to be filled; it is renamed to `target` unless another process was faster."""
    with temporary_folder(target, str(target)) as folder:
        yield folder
        try:
            folder.rename(target)
        except OSError:
            if not target.is_dir():
                raise


@contextmanager
def report_disk_full(what: str, folder: Path) -> Iterator[None]:
    """Turn a full disk into a RuntimeError that says what did not fit, what is free and what to do."""
    try:
        yield
    except OSError as error:
        if error.errno not in DISK_FULL_ERRNOS:
            raise
        free = shutil.disk_usage(folder).free
        action = "raise the limit of file sizes" if error.errno == errno.EFBIG else "free some space"
        raise RuntimeError(
            f"{what} cannot be written: {os.strerror(error.errno).lower()}, {free} bytes free in {folder}; "
            f"what was saved before is intact: {action}, then run it again or resume it"
        ) from None


@contextmanager
def exclusive_lock(
    folder: Path, description: str, *, name: str = LOCK_FILE, waiting: Callable[[str], None] | None = None
) -> Iterator[None]:
    """Hold the lock file `name` of `folder`, or raise ValueError, or call `waiting` with why, and wait.

    The operating system releases the lock however the process ends. The file is not deleted: a third process
    could otherwise lock a new one while a second holds the old.
    """
    path = folder / name
    lock = FileLock(path, blocking=False, fallback_to_soft=False, preserve_lock_file=True)
    try:
        lock.acquire()
    except Timeout:
        message = f"{description} {folder} is in use by {path.read_text() or 'another process'}"
        if waiting is None:
            raise ValueError(message) from None
        waiting(f"{message}; waiting for its end")
        lock.acquire(blocking=True, poll_interval=POLL_SECONDS)
    try:
        # Kept open, as the folder may be renamed meanwhile.
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
        with open_file(path, flags) as owner:
            with report_disk_full(f"lock {path}", folder):
                owner.write(f"{OWNER}{os.getpid()} on host {socket.gethostname()}".encode())
            try:
                yield
            finally:
                owner.truncate(0)
    finally:
        lock.release()


def is_lock(path: Path) -> bool:
    """Return whether a file is a lock, held or not, and not a file of that name of another program."""
    if path.is_symlink() or not path.is_file():
        return False
    return OWNER.encode().startswith(read_regular(path)[: len(OWNER)])
