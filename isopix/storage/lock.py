"""Lock: one process at a time writes into a folder."""

import fcntl
import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LOCK_FILE = "lock"  # the file's name


@contextmanager
def exclusive_lock(folder: Path, what: str, *, name: str = LOCK_FILE) -> Iterator[None]:
    """Be the one process that writes into `folder`, which is a `what`; raises ValueError that names the one
    that does. Locks of another `name` do not exclude one another.

    The kernel holds the lock and drops it when the process ends, however it ends. The file stays: removing it
    would let a third process lock a new file of that name while a second one holds the old.
    """
    with (folder / name).open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise ValueError(f"{what} {folder} is in use by {_owner(file.read())}") from None
        file.truncate(0)
        file.write(json.dumps({"process": os.getpid(), "host": socket.gethostname()}))
        file.flush()
        try:
            yield
        finally:
            file.truncate(0)


def _owner(text: str) -> str:
    """Who holds the lock; it may be about to write its name."""
    try:
        owner = json.loads(text)
    except ValueError:
        return "another process"
    return f"process {owner['process']} on host {owner['host']}"
