"""Reading whole files that may come from elsewhere: regular files only, up to a size."""

import errno
import io
import os
import stat
from pathlib import Path

NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)  # not on Windows
NO_WAIT = getattr(os, "O_NONBLOCK", 0)  # for the other end of a pipe


def read_regular(path: Path, *, max_bytes: int | None = None, follow_links: bool = True) -> bytes:
    """Return the content of a file.

    Raises ValueError for a device, a pipe or a folder, for a symbolic link unless links are followed, and for
    more than `max_bytes`; OSError if the file cannot be read.
    """
    flags = os.O_RDONLY | NO_WAIT | (0 if follow_links else NO_FOLLOW)
    with open_file(path, flags) as file:
        size = os.fstat(file.fileno()).st_size
        if max_bytes is not None and size > max_bytes:
            raise ValueError(f"{path.name} has {size} bytes; at most {max_bytes} are read")
        return file.read()


def open_file(path: Path, flags: int) -> io.FileIO:
    """Open a regular file without buffering, with the flags of `os.open`, to read it or to append to it.

    Raises ValueError for what is no regular file, and for a symbolic link that these flags do not follow;
    OSError if it cannot be opened.
    """
    try:
        descriptor = os.open(path, flags, 0o666)
    except OSError as error:
        if error.errno == errno.ELOOP and path.is_symlink():
            raise ValueError(f"{path} is a symbolic link, which is not followed; put a file there") from None
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ValueError(f"{path.name} is not a regular file")
    return io.FileIO(descriptor, "ab" if flags & os.O_APPEND else "rb")
