"""`isopix data` and `isopix palette`: what is in a dataset, and palettes of colors."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from isopix.codecs.results import PaletteResult, SplitError
from isopix.core.choices import EXAMINED_IMAGES, Count, SplitName
from isopix.core.text import count_of, printable
from isopix.core.verb import verb
from isopix.data.results import DataResult
from isopix.verbs.options import DATASETS, DataSettings, Limit, PathLike, Seed, Stored

if TYPE_CHECKING:
    from isopix.codecs.palette_spec import PaletteFile
    from isopix.data.dataset import ImageDataset
    from isopix.data.survey import Survey

Source = Annotated[PathLike, Stored, f"Dataset: {DATASETS}."]
Out = Annotated[Path | None, "Folder to write images and lists to. By default, nothing is written."]
Examined = Annotated[Count, "Examine up to N images of each split, evenly spaced."]


@verb(command="data")
def data_show(
    source: Source, *settings: DataSettings, out: Out = None, limit: Examined = EXAMINED_IMAGES
) -> DataResult:
    """Show sizes, formats, classes, duplicates, unreadable and blank, dark or blurred images of a dataset.

    With --out, writes a contact sheet, a histogram of sizes, and lists of all duplicates, unreadable images,
    and flagged ones: blank, dark, bright, blurred, elongated, or smaller than data.rows × data.cols.

    Example: isopix data photos/ --out photos-overview
    """
    from isopix.data.dataset import DataConfig
    from isopix.data.survey import survey_source

    config = DataConfig(source=os.fspath(source)).updated(settings)
    result = survey_source(config, limit=limit)
    if out is None:
        return result
    out.mkdir(parents=True, exist_ok=True)
    _draw(out, result)
    _list(out, result.survey)
    return result.saved(out)


def _draw(folder: Path, result: DataResult) -> None:
    from isopix.plots.images import png_bytes
    from isopix.plots.sheets import SheetLine, plot_contact_sheet, plot_image_sizes
    from isopix.plots.style import write_figure
    from isopix.storage.atomic import replace_file

    pictures = {printable(name): found for name, found in result.survey.pictures.items()}
    counts = {
        printable(name): count_of(n, "image") for name, n in (result.splits["train"].classes or {}).items()
    }
    num_shown = sum(map(bool, pictures))  # the unlabeled ones have no name
    titles = {}
    if unlabeled := result.splits["train"].unlabeled:
        counts[""], titles[""] = count_of(unlabeled, "image"), "unlabeled"
    shown = f"; {num_shown} of {count_of(result.num_classes, 'class')} shown"
    title = ", ".join(f"{split.images:,} {name}" for name, split in result.splits.items())
    title = f"{result.data}: {title} images{shown if num_shown < result.num_classes else ''}"
    lines = [
        SheetLine(titles.get(name, name), counts.get(name, ""), found) for name, found in pictures.items()
    ]
    replace_file(folder / "contact-sheet.png", png_bytes(plot_contact_sheet(title, lines)))
    if sizes := result.survey.sizes:
        numbers = [{"width": w, "height": h, "images": n} for (w, h), n in sizes.most_common()]
        write_figure(plot_image_sizes(sizes), folder / "sizes", {"sizes": numbers})


def _list(folder: Path, survey: "Survey") -> None:
    from isopix.storage.atomic import write_csv

    rows = list[tuple[object, ...]]()
    for number, members in enumerate(survey.duplicates):
        group = [survey.images[i][0] for i in members]
        kept = min(group, key=lambda each: len(each.name))  # copies are of one size
        rows += [(number, each is kept, each.split, each.name, each.class_name) for each in group]
    write_csv(folder / "duplicates.csv", ["group", "keep", "split", "image", "class"], rows)
    flags = (
        (each.image.split, each.image.name, each.image.class_name or "", *found)
        for each in survey.flagged
        for found in each.flags.items()
    )
    write_csv(folder / "flagged.csv", ["split", "image", "class", "flag", "value"], flags)
    bad = ((each.path, each.reason) for each in survey.bad_files)
    write_csv(folder / "bad-files.csv", ["path", "reason"], bad)


SIZE = (32, 32)

File = Annotated[Path, "Palette file, or array of bytes of shape (colors, 3) in a .npy or .npz file."]
Colors = Annotated[Count | None, "Fit this many colors to the training images of --data, and write FILE."]
Measured = Annotated[
    PathLike | None, Stored, "Dataset to measure the quantization error on, or to fit colors to."
]
Resized = Annotated[tuple[int, int], "Rows and columns to resize images to."]


@verb()
def palette(
    file: File,
    *,
    colors: Colors = None,
    data: Measured = None,
    size: Resized = SIZE,
    limit: Limit = None,
    seed: Seed = 0,
) -> PaletteResult:
    """Show a palette, and its quantization error on a dataset; with --colors, fit it to the dataset first.

    Colors are fitted by k-means over all pixels of the training images.

    Example: isopix palette colors.npz --data photos/

    Example: isopix palette colors.npz --data photos/ --colors 512
    """
    from isopix.codecs.palette_spec import check_palette_path, read_palette, write_palette
    from isopix.data.dataset import DataConfig
    from isopix.pretrained.images import load_images

    if data is None and (limit or seed or size != SIZE):
        raise ValueError("size, limit and seed are those of data: give data, or leave them out")
    if colors is not None:
        check_palette_path(file)
    config = DataConfig(source=str(data), rows=size[0], cols=size[1], limit=limit, seed=seed)
    images = None if data is None else load_images(config)
    if colors is None:
        return _measured(read_palette(file), images)
    if images is None:
        raise ValueError("fitting colors needs data")
    found = _fitted(images, colors, seed)
    write_palette(file, found)
    return _measured(found, images).saved(file)


def _fitted(images: "ImageDataset", colors: int, seed: int) -> "PaletteFile":
    from isopix.codecs.kmeans import fit_palette
    from isopix.codecs.palette_spec import PaletteFile

    found = fit_palette(images.train.images, colors, seed=seed)
    rows, cols = images.train.images.shape[2:]
    source = f"k-means on {images.name} at {rows}×{cols}, seed {seed}"
    if len(found) < colors:
        source += f"; {colors} were requested, and the images have no more"
    return PaletteFile(found, source)


def _measured(palette: "PaletteFile", images: "ImageDataset | None") -> PaletteResult:
    from isopix.codecs.kmeans import quantization_error
    from isopix.codecs.palette import Palette
    from isopix.core.types import Grid
    from isopix.data.sources.base import SPLIT_NAMES

    codec, splits = Palette(palette.colors, Grid(1, 1)), dict[SplitName, SplitError]()
    for name in SPLIT_NAMES if images is not None else ():
        if len(split := getattr(images, name)):
            splits[name] = quantization_error(codec, split.images)
    return PaletteResult(
        num_colors=len(palette.colors),
        source=palette.source,
        fingerprint=palette.fingerprint,
        rgb=tuple(map(tuple, palette.colors.tolist())),
        data=None if images is None else images.name,
        splits=splits,
    )
