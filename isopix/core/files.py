"""Files of any origin: only regular ones are opened, and their size is known before they are read."""

import io
import os
import stat
from pathlib import Path

MAX_BYTES = 2**28  # of a file that is read whole


def open_file(path: Path, flags: int = os.O_RDONLY, limit: int | None = None) -> io.FileIO:
    """Open a regular file, unbuffered, with the flags of `os.open`.

    Raises ValueError for a device, a pipe and a folder, and for more bytes than `limit`.
    """
    descriptor = os.open(path, flags | os.O_NONBLOCK, 0o666)
    status, problem = os.fstat(descriptor), ""
    if not stat.S_ISREG(status.st_mode):
        problem = "is not a regular file"
    elif limit is not None and status.st_size > limit:
        problem = f"has {status.st_size:,} bytes, above the limit of {limit:,}"
    if problem:
        os.close(descriptor)
        raise ValueError(f"{path.name or path} {problem}")
    return io.FileIO(descriptor, "ab" if flags & os.O_APPEND else "rb")


def read_regular(path: Path, limit: int = MAX_BYTES, *, follow_links: bool = True) -> bytes:
    """Return the content of a file. Raises what `open_file` raises."""
    with open_file(path, os.O_RDONLY | (0 if follow_links else os.O_NOFOLLOW), limit) as file:
        return file.read()


def regular(path: Path, limit: int | None = None) -> Path:
    """Return the path of a regular file, for libraries that open it themselves. Raises as `open_file`."""
    open_file(path, limit=limit).close()
    return path
