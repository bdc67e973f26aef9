"""The files of a dataset: what lies in its folder, what is not read, and one hash of them."""

import math
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from isopix.data.decode import PACKAGES, image_suffixes
from isopix.storage.cache import file_index
from isopix.storage.provenance import hash_tree

# What systems and programs put into folders, beside hidden files; in lower case.
SYSTEM_NAMES = {
    *("@eadir", "@recycle", "#recycle", "$recycle.bin", "system volume information", "lost+found"),
    *("__macosx", "__pycache__", "thumbs.db", "desktop.ini", "network trash folder", "temporary items"),
    *("dataset_dict.json", "dataset_info.json", "state.json"),  # of the library `datasets`
}


def entries_below(folder: Path) -> Iterator[str]:
    """Yield the paths of all files at any depth of a folder, and of its subfolders with a slash at the end.

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
    """Return a note that counts ignored files of a folder by suffix; none if all are read."""
    unread = Counter(suffix_of(each) for each in entries if not each.endswith("/"))
    unread -= Counter(map(suffix_of, read))
    missing = {suffix: f" ({PACKAGES[suffix]})" for suffix in PACKAGES.keys() - image_suffixes()}
    counts = [
        f"{count:,} {suffix or 'without suffix'}{missing.get(suffix, '')}"
        for suffix, count in sorted(unread.items(), key=lambda each: (-each[1], each[0]))
    ]
    return (f"ignored files in {folder}: {', '.join(counts)}",) if counts else ()


def hash_below(root: Path, names: Iterable[str], limit: float = math.inf) -> str:
    """Return one hash of the names and contents of files below a folder (`hash_files`)."""
    folder = root.resolve()
    return hash_tree({name: f"{folder}/{name}" for name in names}, file_index(), limit)
