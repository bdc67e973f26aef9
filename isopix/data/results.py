"""The result of `isopix data`: what is in a dataset, before any training."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from isopix.core.choices import SplitName
from isopix.core.text import Table, count_of
from isopix.storage.result import Result, Unsaved, unsaved

MAX_CLASSES = 30  # in the table
SHOWN = 3  # sizes, duplicates, flagged and unreadable images in the tables; files list all of them


@dataclass(frozen=True)
class BadFile:
    """An image that could not be read, and why."""

    path: str
    reason: str


@dataclass(frozen=True)
class Examined:
    """An image that was examined."""

    split: SplitName
    name: str
    class_name: str | None


@dataclass(frozen=True)
class Flagged:
    """An image that may not be fit for training, its flags, and what was measured for each."""

    image: Examined
    flags: Mapping[str, float]

    def __str__(self) -> str:
        return ", ".join(f"{flag} ({value:g})" for flag, value in self.flags.items())


@dataclass(frozen=True)
class SplitCounts:
    """Images of a split, those examined, and how many there are of each class; None without labels."""

    images: int
    examined: int
    unreadable: int
    classes: Mapping[str, int] | None

    @property
    def unlabeled(self) -> int:
        return 0 if self.classes is None else self.images - sum(self.classes.values())


@dataclass(frozen=True)
class Sizes:
    """The number of different sizes; images of the most common ones, `640×480`; and the least, median and
    largest width and height.
    """

    different: int
    most_common: Mapping[str, int]
    width: tuple[int, ...]
    height: tuple[int, ...]

    def __str__(self) -> str:
        common = [*self.most_common][:SHOWN]
        if self.different == 1:
            return f"all {common[0]}"
        (low, _, high), (lowest, _, highest) = self.width, self.height
        ranges = f"{low}-{high} × {lowest}-{highest}"
        return f"{self.different:,} different, {ranges}; most common: {', '.join(common)}"


@dataclass(frozen=True)
class Duplicates:
    """Groups of images of the same content."""

    groups: int
    images: int
    in_earlier_split: Mapping[SplitName, int]
    groups_with_different_labels: int
    first_groups: tuple[tuple[Examined, ...], ...]

    def __str__(self) -> str:
        if not self.groups:
            return "none"
        parts = [f"{count_of(self.images, 'image')} in {count_of(self.groups, 'group')}"]
        parts += [f"{n:,} in {split} match an earlier split" for split, n in self.in_earlier_split.items()]
        if self.groups_with_different_labels:
            parts.append(f"groups with different labels: {self.groups_with_different_labels:,}")
        return "; ".join(parts)


class DataResult(Result):
    """What was found in the images of a source that were examined, at most `limit` of each split; formats
    are by Pillow's names of format and mode, `JPEG RGB`.
    """

    source: str
    limit: int
    data: str
    num_classes: int
    splits: Mapping[SplitName, SplitCounts]
    sizes: Sizes
    formats: Mapping[str, int]
    duplicates: Duplicates
    flags: Mapping[str, int]
    flagged: tuple[Flagged, ...]
    unreadable: tuple[BadFile, ...]
    survey: Unsaved[Any] = unsaved()

    def tables(self) -> list[Table]:
        classes = count_of(self.num_classes, "class") if self.num_classes else "no labels"
        formats = ", ".join(f"{name} ({count:,})" for name, count in self.formats.items())
        found: list[tuple[str, object]] = []
        if self.formats:
            found = [("width × height", self.sizes), ("format", formats)]
        found.append(("duplicates", self.duplicates))
        found.append(("flagged", ", ".join(f"{n:,} {flag}" for flag, n in self.flags.items()) or "none"))
        found.append(("unreadable", f"{sum(each.unreadable for each in self.splits.values()):,}"))
        rows = [("duplicates", _group(each)) for each in self.duplicates.first_groups[:SHOWN]]
        rows += [("flagged", f"{each.image.name}: {each}") for each in self.flagged[:SHOWN]]
        rows += [("unreadable", f"{each.path}: {each.reason}") for each in self.unreadable[:SHOWN]]
        more = "" if self.path else "; --out FOLDER lists all"
        return [
            Table(f"{self.data}: {classes}", ["", *self.splits], self._counts),
            Table("Images", ["", "found"], found),
            *([Table(f"Examples{more}", ["", "images"], rows)] if rows else []),
        ]

    @property
    def _counts(self) -> list[tuple[str, ...]]:
        splits = self.splits.values()
        rows = [("images", *(f"{each.images:,}" for each in splits))]
        if any(each.examined < each.images for each in splits):
            rows.append(("examined", *(f"{each.examined:,}" for each in splits)))
        if any(each.unlabeled for each in splits):
            rows.append(("unlabeled", *(f"{each.unlabeled:,}" for each in splits)))
        counts = [each.classes or {} for each in splits]
        names = list(next(iter(counts), {}))
        rows += [
            (name, *(f"{each.get(name, 0):,}" if each else "" for each in counts))
            for name in names[:MAX_CLASSES]
        ]
        more = len(names) - MAX_CLASSES
        return [*rows, (count_of(more, "more class"), *("" for _ in counts))] if more > 0 else rows


def _group(images: tuple[Examined, ...]) -> str:
    names = [f"{each.name} ({each.class_name})" if each.class_name else each.name for each in images]
    return " = ".join(names[:SHOWN]) + (" …" if len(names) > SHOWN else "")
