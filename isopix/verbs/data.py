"""`isopix data show`: what is in a dataset, before any training."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from isopix.core.choices import EXAMINED_IMAGES, Count
from isopix.core.text import printable
from isopix.core.verb import verb
from isopix.data.results import DataResult
from isopix.verbs.options import DATASETS, PathLike

if TYPE_CHECKING:
    from isopix.data.survey import Survey

Source = Annotated[PathLike, f"Dataset: {DATASETS}."]
Size = Annotated[
    tuple[int, int], "Rows and columns of images without a size: palette codes, translated-digits."
]
Out = Annotated[Path | None, "Folder of the pictures and lists. By default, nothing is written."]
Examined = Annotated[Count, "Examine up to N images of each split, evenly spaced."]


@verb(command="data show")
def data_show(
    source: Source, *, out: Out = None, limit: Examined = EXAMINED_IMAGES, size: Size = (32, 32)
) -> DataResult:
    """Show sizes, formats, classes, duplicates, images in several splits, and unreadable images of a dataset.

    With --out, writes a contact sheet, a histogram of sizes, lists of all duplicates and unreadable images.

    Example: isopix data show photos/ --out photos-overview
    """
    from isopix.data.survey import survey_source

    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
    result = survey_source(os.fspath(source), size=size, limit=limit)
    if out is None:
        return result
    _draw(out, result)
    _list(out, result.survey)
    return result.saved(out)


def _draw(folder: Path, result: DataResult) -> None:
    from isopix.plots.images import png_bytes
    from isopix.plots.sheets import SheetLine, plot_contact_sheet, plot_image_sizes
    from isopix.plots.style import write_figure
    from isopix.storage.atomic import replace_file

    pictures = {printable(name): found for name, found in result.survey.pictures.items()}
    counts = {printable(name): f"{n:,} images" for name, n in (result.splits["train"].classes or {}).items()}
    shown = f"; {len(pictures)} of {result.num_classes:,} classes shown"
    title = ", ".join(f"{split.images:,} {name}" for name, split in result.splits.items())
    title = f"{result.data}: {title} images{shown if len(pictures) < result.num_classes else ''}"
    lines = [
        SheetLine(name if counts else "", counts.get(name, ""), found) for name, found in pictures.items()
    ]
    replace_file(folder / "contact-sheet.png", png_bytes(plot_contact_sheet(title, lines)))
    if sizes := result.survey.sizes:
        numbers = [{"width": w, "height": h, "images": n} for (w, h), n in sizes.most_common()]
        write_figure(plot_image_sizes(sizes), folder / "sizes", {"sizes": numbers})


def _list(folder: Path, survey: "Survey") -> None:
    from isopix.storage.atomic import write_csv

    groups = [(kind, each) for kind, found in survey.duplicates.items() for each in found]
    rows = (
        (number, kind, image.split, image.name, image.class_name or "")
        for number, (kind, members) in enumerate(groups)
        for image in (survey.images[i][0] for i in members)
    )
    write_csv(folder / "duplicates.csv", ["group", "kind", "split", "image", "class"], rows)
    bad = ((each.path, each.reason) for each in survey.bad_files)
    write_csv(folder / "bad-files.csv", ["path", "reason"], bad)
