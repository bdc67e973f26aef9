"""Which split the name of a folder, a file or an array says, by one table of words."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal, NamedTuple

from isopix.core.choices import SplitName

SplitReading = Literal["auto", "names", "none"]

SPLIT_WORDS: dict[str, SplitName] = {
    "train": "train",
    "training": "train",
    "validation": "validation",
    "valid": "validation",
    "val": "validation",
    "dev": "validation",
    "eval": "validation",
    "test": "test",
    "testing": "test",
}
# Words end at all but letters, and before the capital in trainA.
WORD_BORDER = re.compile(r"[\W\d_]+|(?<=[a-z])(?=[A-Z])")

READINGS = "allowed: data.splits=names ({}), data.splits=none (no name is read as a split), or other names"


class NamedSplit(NamedTuple):
    """The split that a path names, the part that does, what is above and below it, and its wording."""

    split: SplitName
    above: str
    part: str  # with the slash of a folder
    below: str
    wording: str  # a folder's name without digits, or the word in the name of a file or an array


NamedSplits = dict[SplitName, dict[str, NamedSplit | None]]  # what each path of a split names


def words_of(name: str) -> list[str]:
    """Return the words in a name, as they are written."""
    return list(filter(None, WORD_BORDER.split(name)))


def named_split(path: str) -> NamedSplit | None:
    """Return the split that the first part of a path with a split's word names, by the last word in it.

    A path is of folders, which end in a slash, and of a file or an array if the last part does not.
    """
    above = ""
    for part in re.findall("[^/]+/?", path):
        words = [each for each in words_of(part) if each.lower() in SPLIT_WORDS]
        if words:
            wording = re.sub(r"\d", "", part) if part.endswith("/") else words[-1]
            below = path.removeprefix(above + part)
            return NamedSplit(SPLIT_WORDS[words[-1].lower()], above, part, below, wording)
        above += part
    return None


def by_split(paths: Iterable[str], where: Path, reading: SplitReading) -> NamedSplits:
    """Return the paths of each split, without those that name none; all as train if none of them does.

    Raises ValueError if no split is train; and in the reading `auto`, if only some paths name a split, or if
    one split has two wordings.
    """
    named = {each: None if reading == "none" else named_split(each) for each in paths}
    if reading == "auto":
        _require_one_reading(named, where)
    found: NamedSplits = {}
    for path, each in named.items():
        if each is not None:
            found.setdefault(each.split, {})[path] = each
    if found and "train" not in found:
        raise ValueError(f"{where} has no split train, only {', '.join(sorted(found))}")
    return found or {"train": named}


def _require_one_reading(named: Mapping[str, NamedSplit | None], where: Path) -> None:
    first: dict[SplitName, NamedSplit] = {}
    for each in filter(None, named.values()):
        other = first.setdefault(each.split, each)
        if each.wording != other.wording:
            names = f"{other.above}{other.part} and {each.above}{each.part}"
            readings = READINGS.format(f"both are {each.split}")
            raise ValueError(f"{where} has {names}, two names of the split {each.split}; {readings}")
    # What lies in the folder itself ("") is no class beside the folders of splits.
    others = [path for path, each in named.items() if each is None and path]
    if first and others:
        one, readings = next(iter(first.values())), READINGS.format("the others are left out")
        names = f"{one.above}{one.part}, which may be a split, and {min(others)}, which names none"
        raise ValueError(f"{where} has {names}; {readings}")
