"""What lies in the folder of a dataset: its files and folders, and a note of the files that are not read."""

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from isopix.data.decode import missing_packages

# What systems and programs put into folders, beside hidden files; in lower case.
SYSTEM_NAMES = {
    *("@eadir", "@recycle", "#recycle", "$recycle.bin", "system volume information", "lost+found"),
    *("__macosx", "__pycache__", "thumbs.db", "desktop.ini"),
    *("dataset_dict.json", "dataset_info.json", "state.json"),  # of the library `datasets`
}


def entries_below(folder: Path, prefix: str = "", above: tuple[os.stat_result, ...] = ()) -> Iterator[str]:
    """Yield the paths of all files at any depth of a folder, and of its sub-folders with a slash at the end.

    `prefix` precedes them. Hidden ones and those of systems are left out, and folders `above` by symlinks.
    """
    own = folder.stat()
    if any(os.path.samestat(own, each) for each in above):
        return
    if prefix:
        yield prefix
    with os.scandir(folder) as entries:
        for entry in entries:
            name = entry.name
            if name.startswith(".") or name.lower() in SYSTEM_NAMES:
                continue
            if _is_folder(entry):
                yield from entries_below(folder / name, f"{prefix}{name}/", (*above, own))
            else:
                yield prefix + name


def _is_folder(entry: os.DirEntry[str]) -> bool:
    with suppress(OSError):  # a loop of symlinks
        return entry.is_dir()
    return False


def suffix_of(name: str) -> str:
    """Return what follows the last dot of a file's name, with the dot, in lower case."""
    return os.path.splitext(name)[1].lower()  # noqa: PTH122  faster than a Path


def unread_files(folder: Path, entries: Iterable[str], read: Iterable[str]) -> tuple[str, ...]:
    """Return a note that counts, by suffix, the files of a folder that are not read; none if all are."""
    unread = Counter(suffix_of(each) for each in entries if not each.endswith("/"))
    unread -= Counter(map(suffix_of, read))
    missing = missing_packages()
    counts = [
        f"{count:,} {suffix or 'without suffix'}" + (f" ({missing[suffix]})" if suffix in missing else "")
        for suffix, count in sorted(unread.items(), key=lambda each: (-each[1], each[0]))
    ]
    return (f"files of {folder} that are not read: {', '.join(counts)}",) if counts else ()
