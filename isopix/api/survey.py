"""Look at a dataset from Python: data_show."""

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from isopix.api.arguments import PathLike, checked
from isopix.api.notebook import ResultTable, TableOutput
from isopix.core.choices import EXAMINED_IMAGES
from isopix.core.ranges import Count
from isopix.core.text import printable
from isopix.data.duplicates import DuplicateGroup
from isopix.data.sources.base import SPLIT_NAMES
from isopix.data.survey import Survey, survey_source
from isopix.plots import style
from isopix.plots.images import png_bytes
from isopix.plots.sheets import SheetLine, class_lines, plot_contact_sheet, plot_image_sizes
from isopix.storage.atomic import replace_file, write_json
from isopix.storage.csv_file import write_csv
from isopix.storage.provenance import with_provenance

LISTED = 10  # sizes, groups of duplicates and unreadable images in the record; files have all of them
RECORD, SHEET, SIZES = "data.json", "contact-sheet.png", "sizes"
DUPLICATES, BAD_FILES = "duplicates.csv", "bad-files.csv"


@dataclass(frozen=True, repr=False)
class DataOutput(TableOutput):
    """What is in a dataset: `survey` has all of it, `record` the numbers, `files` what was written."""

    survey: Survey
    record: Mapping[str, Any]
    files: tuple[Path, ...]

    def table(self) -> ResultTable:
        """Return a table of the numbers of images, sizes, duplicates and unreadable images."""
        splits, sizes = self.record["splits"], self.record["sizes"]
        rows = [(f"{name} images", f"{each['images']:,}") for name, each in splits.items()]
        if sizes["most_common"]:
            first, different = sizes["most_common"][0], sizes["different"]
            one = f"{first['width']}×{first['height']}"
            text = f"all {one}" if different == 1 else f"{different:,} different, most often {one}"
            rows.append(("width × height", text))
        for kind, each in self.record["duplicates"].items():
            found = f"{each['images']:,} images, groups: {each['groups']:,}" if each["groups"] else "none"
            rows.append((f"{kind} duplicates", found))
        rows.append(("unreadable", f"{sum(each['unreadable'] for each in splits.values()):,}"))
        classes = self.record["num_classes"]
        caption = f"{self.record['data']}: {f'{classes:,} classes' if classes else 'no labels'}"
        return ResultTable(caption, ("", "number"), rows)


@checked
def data_show(
    source: PathLike,
    *,
    out: PathLike | None = None,
    size: tuple[int, int] = (32, 32),
    limit: Count = EXAMINED_IMAGES,
) -> DataOutput:
    """Examine a dataset: sizes, formats, classes, duplicates, images in several splits, unreadable images.

    Up to `limit` images of each split are examined, in ranges at even distances; `size` (rows, columns) is
    that of images that have none: palette codes and translated-digits. With `out`, a contact sheet, a
    histogram of sizes, and lists of duplicates and of unreadable images are written into that folder. Raises
    ValueError if there is no such dataset.
    """
    path = None if out is None else Path(out)
    if path is not None and path.exists() and not path.is_dir():
        raise ValueError(f"out {path} is a file; give a folder")
    survey = survey_source(os.fspath(source), size=size, limit=limit)
    record = {"source": os.fspath(source), "limit": limit, **_record(survey)}
    files = () if path is None else _write(path, survey, record)
    return DataOutput(survey, record, files)


def _record(survey: Survey) -> dict[str, Any]:
    splits = {
        name: {
            "images": split.num_images,
            "examined": split.num_examined,
            "unreadable": split.num_unreadable,
            "classes": None if split.class_counts is None else dict(split.class_counts),
        }
        for name, split in survey.splits.items()
    }
    sizes = [{"width": width, "height": height, "images": n} for (width, height), n in survey.sizes.items()]
    formats = [{"format": format, "mode": mode, "images": n} for (format, mode), n in survey.formats.items()]
    kinds = ("exact", "near")
    return {
        "data": printable(survey.source.name),
        "num_classes": len(survey.source.classes),
        "splits": splits,
        "sizes": {"different": len(sizes), "most_common": sizes[:LISTED], **_ranges(survey.sizes)},
        "formats": formats,
        "duplicates": {kind: _summary(survey, kind) for kind in kinds},
        "unreadable": [{"path": each.path, "reason": each.reason} for each in survey.bad_files[:LISTED]],
    }


def _ranges(sizes: Mapping[tuple[int, int], int]) -> dict[str, list[int]]:
    """Return the least, the median and the largest width and height."""
    found = {}
    for place, name in enumerate(("width", "height")):
        counts: Counter[int] = Counter()
        for size, count in sizes.items():
            counts[size[place]] += count
        values = sorted(counts.elements())
        found[name] = [values[0], values[len(values) // 2], values[-1]] if values else []
    return found


def _summary(survey: Survey, kind: str) -> dict[str, Any]:
    """Return the numbers of groups and of images, of images that are in an earlier split too, and of groups
    whose images have different labels.
    """
    groups = [each for each in survey.duplicates if each.kind == kind]
    across: Counter[str] = Counter()
    conflicting = 0
    for group in groups:
        members = [survey.image(i) for i in group.members]
        splits = Counter(member.split for member in members)
        first = next(name for name in SPLIT_NAMES if name in splits)
        across.update({name: count for name, count in splits.items() if name != first})
        conflicting += len({member.class_name for member in members} - {None}) > 1
    return {
        "groups": len(groups),
        "images": sum(len(group.members) for group in groups),
        "in_earlier_split": dict(across),
        "groups_with_different_labels": conflicting,
        "first_groups": [_members(survey, group) for group in groups[:LISTED]],
    }


def _members(survey: Survey, group: DuplicateGroup) -> list[dict[str, str | None]]:
    return [survey.image(i)._asdict() for i in group.members[:LISTED]]


def _write(folder: Path, survey: Survey, record: Mapping[str, Any]) -> tuple[Path, ...]:
    folder.mkdir(parents=True, exist_ok=True)
    sheet = plot_contact_sheet(_title(survey), _lines(survey))
    replace_file(folder / SHEET, png_bytes(sheet))
    files = [folder / SHEET]
    if survey.sizes:
        numbers = [{"width": w, "height": h, "images": n} for (w, h), n in survey.sizes.items()]
        files += style.write_figure(plot_image_sizes(survey.sizes), folder / SIZES, {"sizes": numbers})
    write_csv(folder / DUPLICATES, ["group", "kind", "split", "image", "class"], _duplicate_rows(survey))
    bad = ((each.path, each.reason) for each in survey.bad_files)
    write_csv(folder / BAD_FILES, ["path", "reason"], bad)
    write_json(folder / RECORD, with_provenance(record))
    return (*files, folder / DUPLICATES, folder / BAD_FILES, folder / RECORD)


def _duplicate_rows(survey: Survey) -> list[Sequence[object]]:
    return [
        (number, group.kind, member.split, member.name, member.class_name or "")
        for number, group in enumerate(survey.duplicates)
        for member in map(survey.image, group.members)
    ]


def _title(survey: Survey) -> str:
    counts = ", ".join(f"{split.num_images:,} {name}" for name, split in survey.splits.items())
    shown, classes = len(survey.pictures), len(survey.source.classes)
    note = f"; {shown} of {classes:,} classes shown" if survey.source.classes and shown < classes else ""
    return f"{printable(survey.source.name)}: {counts} images{note}"


def _lines(survey: Survey) -> list[SheetLine]:
    counts = survey.splits["train"].class_counts
    if counts is None:
        return [SheetLine("", "", pictures) for pictures in survey.pictures.values()]
    named = {printable(name): pictures for name, pictures in survey.pictures.items()}
    return class_lines(named, {printable(name): count for name, count in counts.items()})
