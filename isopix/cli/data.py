"""`isopix data`: what is in a dataset, before any training."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter

from isopix.api import survey
from isopix.api.survey import DataOutput
from isopix.cli.console import Json, Positive, say, say_wrapped, show_json, show_table
from isopix.core.choices import EXAMINED_IMAGES

app = App(
    name="data",
    help="""Look at a dataset: pictures, sizes, classes, duplicates and unreadable images.

Example: isopix data show photos/
""",
)

MAX_CLASSES = 30  # in the table; the record has all
SHOWN = 3  # duplicates and unreadable images in the text

Numbers = Mapping[str, Any]
Size = Annotated[
    tuple[int, int],
    Parameter(
        negative="", help="Rows and columns of images without a size: palette codes, translated-digits."
    ),
]
Examined = Annotated[
    int,
    Parameter(validator=Positive, help="Examine up to N images of each split, evenly spaced."),
]


@app.command(name="show")
def data_show(
    source: str,
    *,
    out: Path | None = None,
    limit: Examined = EXAMINED_IMAGES,
    size: Size = (32, 32),
    json: Json = False,
) -> None:
    """Show sizes, formats, classes, duplicates, images in several splits, and unreadable images of a dataset.

    With --out, writes a contact sheet, a histogram of sizes, lists of all duplicates and unreadable images,
    and the numbers: contact-sheet.png, sizes.png and .svg, duplicates.csv, bad-files.csv, data.json.

    Example: isopix data show photos/ --out photos-overview

    Parameters
    ----------
    source
        Dataset: an image folder, .npz, Parquet, tar or Arrow files, or name (digits, cifar10, ...).
    out
        Folder of the pictures and lists. By default, nothing is written.
    """
    found = survey.data_show(source, out=out, size=size, limit=limit)
    if json:
        show_json({**found.record, "written": [str(path) for path in found.files]})
    else:
        _print(found)


def _print(found: DataOutput) -> None:
    record = found.record
    _print_splits(record)
    sizes, total = record["sizes"], sum(each["images"] for each in record["formats"])
    if total:
        say_wrapped(f"sizes: {_sizes(sizes)}")
        kinds = (
            f"{each['format']} {each['mode']} {_part(each['images'], total)}" for each in record["formats"]
        )
        say_wrapped(f"formats: {', '.join(kinds)}")
    for kind, title in (("exact", "exact duplicates"), ("near", "near duplicates")):
        _print_duplicates(title, record["duplicates"][kind])
    bad = sum(each["unreadable"] for each in record["splits"].values())
    say(f"unreadable: {bad:,}")
    for each in record["unreadable"][:SHOWN]:
        say(f"  {each['path']}: {each['reason']}")
    if bad > SHOWN:
        say(f"  and {bad - SHOWN:,} more" + ("" if found.files else "; --out FOLDER lists all"))
    for path in found.files:
        say(f"wrote {path}")


def _print_splits(record: Numbers) -> None:
    """Print the number of images of each split, and of each class in it."""
    splits = record["splits"]
    rows = [("images", *(f"{each['images']:,}" for each in splits.values()))]
    if any(each["examined"] < each["images"] for each in splits.values()):
        rows.append(("examined", *(f"{each['examined']:,}" for each in splits.values())))
    counted = {name: each["classes"] or {} for name, each in splits.items()}
    names = list(next(iter(counted.values()), {}))
    rows += [
        (f"  {name}", *(f"{counts.get(name, 0):,}" if counts else "" for counts in counted.values()))
        for name in names[:MAX_CLASSES]
    ]
    classes = f"{record['num_classes']:,} classes" if names else "no labels"
    show_table(f"{record['data']}: {classes}", ["", *splits], rows)
    if len(names) > MAX_CLASSES:
        say(f"  and {len(names) - MAX_CLASSES:,} more classes")


def _sizes(sizes: Numbers) -> str:
    """Describe the sizes: one, or the range and the most common ones."""
    common = [f"{each['width']}×{each['height']}" for each in sizes["most_common"]]
    if sizes["different"] == 1:
        return f"all {common[0]} (width × height)"
    (low, middle, high), (lowest, median, highest) = sizes["width"], sizes["height"]
    return (
        f"{sizes['different']:,} different; width {low} to {high} (median {middle}), height {lowest} to "
        f"{highest} (median {median}); most common: {', '.join(common[:SHOWN])}"
    )


def _part(count: int, total: int) -> str:
    return f"({count:,})" if count < total else "(all)"


def _print_duplicates(title: str, numbers: Numbers) -> None:
    """Print the number of groups, what is wrong with them, and the first of them."""
    if not numbers["groups"]:
        say(f"{title}: none")
        return
    say(f"{title}: {numbers['images']:,} images; groups: {numbers['groups']:,}")
    for split, count in numbers["in_earlier_split"].items():
        say(f"  {split} images that are in an earlier split, too: {count:,}")
    if conflicts := numbers["groups_with_different_labels"]:
        say(f"  groups with different labels: {conflicts:,}")
    for group in numbers["first_groups"][:SHOWN]:
        names = [
            f"{each['name']}{' (' + each['class_name'] + ')' if each['class_name'] else ''}" for each in group
        ]
        say(f"  {' = '.join(names[:SHOWN])}{' …' if len(names) > SHOWN else ''}")
