"""Files of any origin: only regular ones are opened, and their size is known before they are read."""

import io
import math
import os
import stat
from pathlib import Path

MAX_BYTES = 2**28  # of a file that is read whole


def open_file(path: Path, flags: int = os.O_RDONLY, limit: float = math.inf) -> io.FileIO:
    """Open a file with the flags of `os.open`. Raises ValueError above the limit, and for no regular file."""
    descriptor = os.open(path, flags | os.O_NONBLOCK, 0o666)
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        problem = "is not a regular file"
    elif status.st_size > limit:
        problem = f"has {status.st_size:,} bytes, above the limit of {limit:,}"
    else:
        return io.FileIO(descriptor, "ab" if flags & os.O_APPEND else "rb")
    os.close(descriptor)
    raise ValueError(f"{path.name or path} {problem}")


def read_regular(path: Path, limit: int = MAX_BYTES, flags: int = 0) -> bytes:
    """Return the content of a file. Raises what `open_file` raises."""
    with open_file(path, flags, limit) as file:
        return file.read()


def regular(path: Path, limit: float = math.inf) -> Path:
    """Return the path for a library that opens it itself. Raises what `open_file` raises."""
    open_file(path, limit=limit).close()
    return path
