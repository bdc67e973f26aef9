"""Locks: one process at a time writes into a folder."""

import errno
import json
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from isopix.storage.atomic import report_disk_full

LOCK_FILE = "lock"
POLL_SECONDS = 0.5  # between attempts to get a lock that another process holds
OWNER = b'{"process": '  # begins the text of a lock that is held, or whose holder was killed


@contextmanager
def exclusive_lock(
    folder: Path,
    description: str,
    *,
    name: str = LOCK_FILE,
    waiting: Callable[[str], None] | None = None,
) -> Iterator[None]:
    """Hold the lock file `name` of `folder`; raises ValueError that names the process that holds it, or calls
    `waiting` with the message and waits for its end.

    `description` says what the folder is, for the message. The operating system releases the lock when the
    process ends, however it ends. The file is not deleted: a third process could otherwise lock a new file
    of that name while a second one holds the old.
    """
    path = folder / name
    lock = FileLock(path, blocking=False, fallback_to_soft=False, preserve_lock_file=True)
    try:
        lock.acquire()
    except Timeout:
        message = f"{description} {folder} is in use by {_owner(path.read_text())}"
        if waiting is None:
            raise ValueError(message) from None
        waiting(f"{message}; waiting for its end")
        lock.acquire(blocking=True, poll_interval=POLL_SECONDS)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise ValueError(f"{path} is a symbolic link, which is not followed; delete it") from None
        raise
    try:
        # Kept open, as the folder may be renamed meanwhile.
        with open(path, "wb", buffering=0, opener=_open_file) as owner:
            with report_disk_full(f"lock {path}", folder):
                owner.write(json.dumps({"process": os.getpid(), "host": socket.gethostname()}).encode())
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
    with open(path, "rb", opener=_open_file) as file:
        return file.read(len(OWNER)) in (b"", OWNER)


def _open_file(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW)


def _owner(text: str) -> str:
    """Return who holds the lock, if its name is written already."""
    try:
        owner = json.loads(text)
    except ValueError:
        return "another process"
    return f"process {owner['process']} on host {owner['host']}"
