"""Index of files: content hashes that are kept, so that only files that changed are read again."""

import os
import stat
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isopix.core.progress import long_step
from isopix.data.sources.file_table import FileTable
from isopix.storage.arrays import npz_bytes
from isopix.storage.atomic import replace_file
from isopix.storage.hashing import DIGEST_BYTES, hash_file, hash_pieces

INDEX_VERSION = 1
# A file that is written twice within one tick of its time stamps looks the same after the second time, so
# that younger ones are read again. File systems have ticks of up to 2 seconds (FAT).
TICK = 2 * 10**9  # nanoseconds
FILES_PER_CHUNK, CHUNKS_PER_BLOCK = 64, 64  # read by a thread, and by all of them before the next are listed

Stamps = NDArray[np.int64]  # [n 3]: size, and times of the last change of content and of status in ns


@dataclass(frozen=True)
class FileIndex:
    """What is known of each file: its stamps, and its content hash; -1 and zeros for what is not a file."""

    text: NDArray[np.uint8]  # the names
    ends: NDArray[np.int64]  # [n], where they end
    stamps: Stamps
    digests: NDArray[np.uint8]  # [n DIGEST_BYTES]

    def names(self) -> list[bytes]:
        """Return the names."""
        text, ends = self.text.tobytes(), self.ends.tolist()
        return [text[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def hash_table(files: FileTable, order: Iterable[int] | None = None, index: Path | None = None) -> str:
    """Return `hash_tree` of the files in this order.

    With a folder `index` the hashes of files are kept there. At the next time all files are looked up, and
    those are read again of which size, or time of the last change of content or status, is another one, and
    those that had changed within `TICK` before they were read.
    """
    stamps, start = np.full((len(files), 3), -1, np.int64), time.time_ns()
    for i in range(len(files)):
        stamps[i] = _stamp(files.location(i))
    known = None if index is None else _read(_index_file(index, files))
    digests = np.zeros((len(files), DIGEST_BYTES), np.uint8)
    unread = np.ones(len(files), bool) if known is None else ~_take(known, files, stamps, digests)
    failed = _hash_into(digests, files, np.flatnonzero(unread))
    if index is not None and unread.any():
        stamps[list(failed)] = -1
        stamps[(stamps[:, 1:] >= start - TICK).any(1)] = -1
        _write(_index_file(index, files), files, stamps, digests)
    rows = range(len(files)) if order is None else order
    return hash_pieces(
        files.name(i) + b"/" + (failed[i].encode() if i in failed else digests[i].tobytes().hex().encode())
        for i in rows
    )


def _stamp(path: str) -> tuple[int, int, int]:
    try:
        status = os.stat(path)  # noqa: PTH116  a Path for each of millions of files takes longer than the call
    except (OSError, ValueError):
        return -1, -1, -1
    if not stat.S_ISREG(status.st_mode):
        return -1, -1, -1
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _take(
    known: FileIndex, files: FileTable, stamps: Stamps, digests: NDArray[np.uint8]
) -> NDArray[np.bool_]:
    """Fill in the hashes of files that have not changed; return of which files they are."""
    text, ends = files.packed()
    if np.array_equal(known.ends, ends) and np.array_equal(known.text, text):
        rows = np.arange(len(files))
    else:
        places = {name: row for row, name in enumerate(known.names())}
        rows = np.fromiter((places.get(name, -1) for name in files.names()), np.int64, len(files))
    if not len(known.ends):
        return np.zeros(len(files), bool)
    same = (rows >= 0) & (stamps[:, 0] >= 0) & (known.stamps[rows] == stamps).all(1)
    digests[same] = known.digests[rows[same]]
    return same


def _hash_into(digests: NDArray[np.uint8], files: FileTable, rows: NDArray[np.int64]) -> dict[int, str]:
    """Read these files; return what stands for the hash of those that cannot be read."""

    def read(part: NDArray[np.int64]) -> list[bytes | str]:
        return [hash_file(files.location(i)) for i in part.tolist()]

    failed: dict[int, str] = {}
    read_files, step = 0, FILES_PER_CHUNK * CHUNKS_PER_BLOCK
    # Hashing releases the GIL.
    with long_step("reading files", len(rows)) as count, ThreadPoolExecutor() as pool:
        for first in range(0, len(rows), step):
            block = rows[first : first + step]
            size = max(1, min(FILES_PER_CHUNK, len(block) // 8))
            parts = [block[start : start + size] for start in range(0, len(block), size)]
            for part, found in zip(parts, pool.map(read, parts), strict=True):
                for i, digest in zip(part.tolist(), found, strict=True):
                    if isinstance(digest, str):
                        failed[i] = digest
                    else:
                        digests[i] = np.frombuffer(digest, np.uint8)
                read_files += len(part)
                count(read_files)
    return failed


def _index_file(index: Path, files: FileTable) -> Path:
    indexed = (
        files.path(0) if len(files) == 1 else files.root
    )  # files of one folder are sources by themselves
    return index / f"{hash_pieces([os.fsencode(indexed.resolve())])}-{INDEX_VERSION}.npz"


def _read(path: Path) -> FileIndex | None:
    """Return an index; None if there is none, or it is damaged: the archive has a checksum of each array."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            found = {name: arrays[name] for name in arrays.files}
    except Exception:  # damaged archives raise a dozen types
        return None
    return _checked(found)


def _checked(arrays: dict[str, NDArray[Any]]) -> FileIndex | None:
    if arrays.keys() != {"text", "ends", "stamps", "digests"}:
        return None
    count = len(arrays["ends"])
    shapes = {"ends": (count,), "stamps": (count, 3), "digests": (count, DIGEST_BYTES)}
    types = {"text": np.uint8, "ends": np.int64, "stamps": np.int64, "digests": np.uint8}
    if any(arrays[name].shape != shape for name, shape in shapes.items()):
        return None
    if any(arrays[name].dtype != kind for name, kind in types.items()):
        return None
    return FileIndex(**arrays)


def _write(path: Path, files: FileTable, stamps: Stamps, digests: NDArray[np.uint8]) -> None:
    """Replace the index; without it, and without room for it, files are read again."""
    text, ends = files.packed()
    arrays: dict[str, NDArray[Any]] = {"text": text, "ends": ends, "stamps": stamps, "digests": digests}
    with suppress(OSError, RuntimeError):
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, npz_bytes(arrays))
