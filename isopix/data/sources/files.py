"""The files of a dataset: what lies in its folder, what is not read, and hashes, which are kept, so that only
files that changed are read again.
"""

import math
import os
import sqlite3
import stat
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, suppress
from multiprocessing.pool import ThreadPool
from pathlib import Path

from isopix.core.progress import track
from isopix.data.decode import PACKAGES, image_suffixes
from isopix.storage.provenance import hash_digests, hash_file

# What systems and programs put into folders, beside hidden files; in lower case.
SYSTEM_NAMES = {
    *("@eadir", "@recycle", "#recycle", "$recycle.bin", "system volume information", "lost+found"),
    *("__macosx", "__pycache__", "thumbs.db", "desktop.ini", "network trash folder", "temporary items"),
    *("dataset_dict.json", "dataset_info.json", "state.json"),  # of the library `datasets`
}
# A file that is written twice within one tick of its time stamps looks the same after the second time, so
# that younger ones are read again. File systems have ticks of up to 2 seconds (FAT).
TICK = 2 * 10**9  # nanoseconds
FILES_PER_CHUNK = 64  # read by a thread at a time

Stamp = tuple[int, int, int]  # size, and times of the last change of content and of status in ns


def entries_below(folder: Path) -> Iterator[str]:
    """Yield the paths of all files at any depth of a folder, and of its sub-folders with a slash at the end.

    Hidden ones and those of systems are left out, and symlinks to folders that they are in.
    """
    for place, folders, files in os.walk(folder, onerror=_raise, followlinks=True):
        here = Path(place)
        prefix = "" if here == folder else f"{here.relative_to(folder).as_posix()}/"
        walked = [each.resolve() for each in (here, *here.parents) if each.is_relative_to(folder)]
        folders[:] = [each for each in folders if _is_visible(each) and not _is_above(here / each, walked)]
        yield from (f"{prefix}{each}/" for each in folders)
        yield from (prefix + each for each in files if _is_visible(each))


def _raise(error: OSError) -> None:
    raise error


def _is_visible(name: str) -> bool:
    return not name.startswith(".") and name.lower() not in SYSTEM_NAMES


def _is_above(link: Path, walked: Iterable[Path]) -> bool:
    return link.is_symlink() and any(each.is_relative_to(link.resolve()) for each in walked)


def suffix_of(name: str) -> str:
    """Return what follows the last dot of a file's name, with the dot, in lower case."""
    return os.path.splitext(name)[1].lower()  # noqa: PTH122  faster than a Path


def unread_files(folder: Path, entries: Iterable[str], read: Iterable[str]) -> tuple[str, ...]:
    """Return a note that counts, by suffix, the files of a folder that are not read; none if all are."""
    unread = Counter(suffix_of(each) for each in entries if not each.endswith("/"))
    unread -= Counter(map(suffix_of, read))
    missing = {suffix: f" ({PACKAGES[suffix]})" for suffix in PACKAGES.keys() - image_suffixes()}
    counts = [
        f"{count:,} {suffix or 'without suffix'}{missing.get(suffix, '')}"
        for suffix, count in sorted(unread.items(), key=lambda each: (-each[1], each[0]))
    ]
    return (f"files of {folder} that are not read: {', '.join(counts)}",) if counts else ()


def hash_names(root: Path, names: Sequence[str], index: Path | None = None, limit: float = math.inf) -> str:
    """Return one hash of the names and contents of files below a folder.

    With a file `index`, only those are read again whose size or times differ, or that had just changed; those
    of more than `limit` bytes, which nobody reads, are not.
    """
    start, paths = time.time_ns(), [f"{root.resolve()}/{name}" for name in names]
    stamps = list(map(_stamp, paths))
    digests = _known(index, paths, stamps)
    unread = [i for i, digest in enumerate(digests) if digest is None]
    threads = min(32, (os.cpu_count() or 1) + 4)  # hashing frees the GIL, and disks take many requests
    with track("reading files", len(unread)) as count, ThreadPool(threads) as pool:
        found = pool.imap(lambda i: hash_file(paths[i], limit), unread, FILES_PER_CHUNK)
        for done, (i, digest) in enumerate(zip(unread, found, strict=True), start=1):
            digests[i] = digest
            count(done)
    old = [i for i in unread if isinstance(digests[i], bytes) and max(stamps[i][1:]) < start - TICK]
    _keep(index, [(os.fsencode(paths[i]), *stamps[i], digests[i]) for i in old])
    hashed = zip(names, digests, strict=True)
    return hash_digests((name, digest) for name, digest in hashed if digest is not None)


def _stamp(path: str) -> Stamp:
    with suppress(OSError, ValueError):
        status = os.stat(path)  # noqa: PTH116  a Path for each of millions of files takes longer than the call
        if stat.S_ISREG(status.st_mode):
            return status.st_size, status.st_mtime_ns, status.st_ctime_ns
    return -1, -1, -1


def _known(index: Path | None, paths: Sequence[str], stamps: Sequence[Stamp]) -> list[bytes | str | None]:
    query = "SELECT digest FROM files WHERE path = ? AND size = ? AND modified = ? AND changed = ?"
    if index is not None and index.exists():
        with suppress(sqlite3.Error), closing(_open(index)) as table:  # a damaged index is none
            keys = ((os.fsencode(path), *stamp) for path, stamp in zip(paths, stamps, strict=True))
            rows = (table.execute(query, key).fetchone() for key in keys)
            return [row and row[0] for row in rows]
    return [None] * len(paths)


def _keep(index: Path | None, rows: Sequence[tuple[object, ...]]) -> None:
    if index is None or not rows:
        return
    try:
        index.parent.mkdir(parents=True, exist_ok=True)
        with closing(_open(index)) as table, table:
            table.executemany("REPLACE INTO files VALUES (?, ?, ?, ?, ?)", rows)
    except (OSError, sqlite3.OperationalError):  # read-only, in use or without room
        pass
    except sqlite3.DatabaseError:
        index.unlink(missing_ok=True)


def _open(index: Path) -> sqlite3.Connection:
    table = sqlite3.connect(index)
    columns = "path BLOB PRIMARY KEY, size INT, modified INT, changed INT, digest BLOB"
    table.execute(f"CREATE TABLE IF NOT EXISTS files ({columns})")
    return table
