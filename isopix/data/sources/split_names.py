"""Which split the name of a folder, a file or an array says, by one table of words."""

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from isopix.core.choices import SplitName
from isopix.data.dataset import SplitReading

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
SPLIT_COLUMNS = {"split", "Split", "subset", "partition"}  # of tables whose rows may name splits
# Words end at all but letters, and before the capital in trainA.
WORD_BORDER = re.compile(r"[\W\d_]+|(?<=[a-z])(?=[A-Z])")

READINGS = "set data.splits=names ({}) or data.splits=none (one training split), or rename them"


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


def split_of(word: str) -> SplitName | None:
    """Return the split that a word means, such as `Train` or `trainset`."""
    return SPLIT_WORDS.get(word.lower().removesuffix("set"))


def named_split(path: str, above: str = "") -> NamedSplit | None:
    """Return the split that the first part of a path with a split's word names, by the last word in it.

    A path is of folders, which end in a slash, and of a file or an array if the last part does not. What is
    `above` names none.
    """
    for part in re.findall("[^/]+/?", path.removeprefix(above)):
        words = list(filter(split_of, words_of(part)))
        if words and (split := split_of(words[-1])):
            wording = re.sub(r"\d", "", part) if part.endswith("/") else words[-1]
            below = path.removeprefix(above + part)
            return NamedSplit(split, above, part, below, wording)
        above += part
    return None


def splits_named(named: Iterable[NamedSplit | None]) -> set[SplitName]:
    """Return the splits that are named."""
    return {each.split for each in named if each}


def by_split(paths: Iterable[str], where: Path, reading: SplitReading) -> NamedSplits:
    """Return the paths of each split, without those that name none; all as train if none of them does.

    A folder that holds all of the splits names none. Raises ValueError if no split is train; and in the
    reading `auto`, if only some paths name a split, or if one split has two wordings.
    """
    named = {each: None if reading == "none" else named_split(each) for each in paths}
    shared = os.path.commonprefix([*filter(None, named)])  # noqa: RUF071  up to its last slash
    inside = {each: named_split(each, shared[: shared.rfind("/") + 1]) for each in named}
    if reading != "none" and {"train"} < splits_named(inside.values()):
        named = inside
    if reading == "auto":
        _require_one_reading(named, where)
    found: NamedSplits = {}
    for path, each in named.items():
        if each is not None:
            found.setdefault(each.split, {})[path] = each
    if found and "train" not in found:
        way = "data.splits=none reads all as training images"
        raise ValueError(f"{where} has no split train, only {', '.join(sorted(found))}; {way}")
    return found or {"train": named}


def require_one_split(where: str, names: Iterable[object]) -> None:
    """Raise ValueError if the folders or the rows of a file name several splits."""
    found = sorted(splits_named(named_split(str(each)) for each in names))
    if len(found) > 1:
        ways = "data.splits=none (one split), or a file or folder for each"
        raise ValueError(f"{where} has the splits {' and '.join(found)}; allowed: {ways}")


def _require_one_reading(named: Mapping[str, NamedSplit | None], where: Path) -> None:
    first: dict[SplitName, NamedSplit] = {}
    for each in filter(None, named.values()):
        other = first.setdefault(each.split, each)
        if each.wording != other.wording:
            names = f"{other.above}{other.part} and {each.above}{each.part}"
            readings = READINGS.format(f"reads both as {each.split}")
            raise ValueError(f"{where} has {names}, two names of the split {each.split}; {readings}")
    # What lies in the folder itself ("") is no class beside the folders of splits.
    others = [path for path, each in named.items() if each is None and path]
    if first and others:
        one, readings = next(iter(first.values())), READINGS.format("leaves out the others")
        names = f"{one.above}{one.part}, which names a split, and {min(others)}, which does not"
        raise ValueError(f"{where} has {names}; {readings}")
