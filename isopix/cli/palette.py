"""`isopix palette`: fit, import and inspect color palettes."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter
from rich.text import Text

from isopix.cli.console import Json, Limit, Seed, console, say, show_json, show_table
from isopix.cli.loading import load_images
from isopix.codecs import kmeans, palette_file
from isopix.codecs.palette import Palette
from isopix.codecs.palette_file import PaletteFile
from isopix.codecs.quantization_error import QuantizationError, quantization_error
from isopix.core.types import Grid
from isopix.data.dataset import DataConfig, ImageDataset
from isopix.plots import palette as plots
from isopix.plots import style

app = App(
    name="palette",
    help="""Fit, import and inspect color palettes.

Example: isopix palette fit --data photos/ --out palette.npz
""",
)

EXAMPLES = 10  # images in the figure of before and after

Numbers = Mapping[str, Any]
Size = Annotated[tuple[int, int], Parameter(negative="", help="Rows and columns to resize images to.")]
Range = Annotated[
    tuple[float, float] | None,
    Parameter(name="--range", negative="", help="Values of black and white in the file: -1 1, 0 1 or 0 255."),
]


@app.command
def fit(
    *,
    data: str,
    out: Path,
    colors: int = 512,
    size: Size = (32, 32),
    limit: Limit = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Fit a palette to the training images of a data set, by k-means over all their pixels.

    Writes the palette, figures of it and of images before and after quantization, and their numbers.

    Example: isopix palette fit --data photos/ --colors 512 --out palette.npz

    Parameters
    ----------
    data
        Data set: an image folder, .npz file, Parquet file or folder, or name (digits, cifar10, ...).
    out
        Palette file to write, ending in .npz.
    colors
        Number of colors.
    """
    palette_file.check_palette_path(out)
    images = _load_images(data, size, limit, seed)
    found = kmeans.fit_palette(images.train.images, colors, seed=seed)
    source = f"k-means on {images.name} at {size[0]}×{size[1]}, seed {seed}"
    stored = PaletteFile(found.colors, source, found.error.counts)
    palette_file.write_palette(out, stored)
    numbers = {**_description(stored), "iterations": found.iterations, **_errors(stored, images)}
    _print(stored, numbers, [out, *_save_figures(out, stored, numbers, images)], json=json)


@app.command(name="import")
def import_palette(file: Path, *, out: Path, range_: Range = None, json: Json = False) -> None:
    """Convert an array of colors in a .npy or .npz file to a palette file.

    The value range is required, except for OpenAI's kmeans_centers.npy, which is recognized by its hash.

    Example: isopix palette import clusters.npy --range -1 1 --out palette.npz

    Parameters
    ----------
    file
        Array of shape (colors, 3).
    out
        Palette file to write, ending in .npz.
    """
    palette_file.check_palette_path(out)
    stored = palette_file.read_palette(file, range_)
    palette_file.write_palette(out, stored)
    numbers = _description(stored)
    _print(stored, numbers, [out, *_save_figures(out, stored, numbers)], json=json)


@app.command
def show(
    file: Path,
    *,
    data: str | None = None,
    out: Path | None = None,
    size: Size = (32, 32),
    limit: Limit = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Show a palette and its quantization error, unused colors and rare colors on a data set.

    Example: isopix palette show palette.npz --data photos/ --out figures/palette

    Parameters
    ----------
    file
        Palette file.
    data
        Data set to measure the quantization error on.
    out
        Path prefix of figures and numbers to write.
    """
    stored = palette_file.read_palette(file)
    images = None if data is None else _load_images(data, size, limit, seed)
    numbers = {**_description(stored), **({} if images is None else _errors(stored, images))}
    _print(stored, numbers, [] if out is None else _save_figures(out, stored, numbers, images), json=json)


def _load_images(source: str, size: tuple[int, int], limit: int | None, seed: int) -> ImageDataset:
    return load_images(DataConfig(source=source, rows=size[0], cols=size[1], limit=limit), seed)


def _description(stored: PaletteFile) -> dict[str, Any]:
    return {"num_colors": len(stored.colors), "source": stored.source, "fingerprint": stored.fingerprint}


def _errors(stored: PaletteFile, images: ImageDataset) -> dict[str, Any]:
    """Return the quantization error on each split that has images."""
    palette = Palette(stored.colors, Grid(1, 1))
    splits = {"train": images.train, "validation": images.validation, "test": images.test}
    return {
        "data": images.name,
        "splits": {
            name: _numbers(quantization_error(palette, split.images))
            for name, split in splits.items()
            if len(split)
        },
    }


def _numbers(found: QuantizationError) -> dict[str, Any]:
    return {
        "pixels": found.num_pixels,
        "rmse": found.rmse,
        "psnr_db": found.psnr,
        "unused_colors": found.num_unused,
        "rare_colors": found.num_rare,
    }


def _save_figures(
    out: Path, stored: PaletteFile, numbers: Numbers, images: ImageDataset | None = None
) -> list[Path]:
    """Save the figures and their numbers next to `out`."""
    stem = out.with_suffix("")
    counts = None if stored.counts is None else stored.counts.tolist()
    title = f"{len(stored.colors)} colors: {stored.source}"
    figure = plots.plot_palette(stored.colors, stored.counts, title=title)
    written = style.write_figure(figure, stem, {**numbers, "rgb": stored.colors.tolist(), "counts": counts})
    if images is None:
        return list(written)
    split = images.test if len(images.test) else images.train
    before = split.images[:EXAMPLES]
    rows, cols = before.shape[2:]
    palette = Palette(stored.colors, Grid(rows, cols))
    after = palette.decode(palette.encode(before))
    errors = (before.double() - after.double()).square().mean(dim=(1, 2, 3)).sqrt()
    figure = plots.plot_quantization(before, after)
    name = stem.with_name(f"{stem.name}-images")
    return [*written, *style.write_figure(figure, name, {"rmse_per_image": errors.tolist()})]


def _print(stored: PaletteFile, numbers: Numbers, written: list[Path], *, json: bool) -> None:
    if json:
        show_json({**numbers, "written": [str(path) for path in written]})
        return
    if console.is_terminal:
        console.print(_swatches(stored))
    say(f"{numbers['num_colors']} colors: {numbers['source']} (fingerprint {numbers['fingerprint'][:12]})")
    if "splits" in numbers:
        rows = [(name, *_format_row(values)) for name, values in numbers["splits"].items()]
        show_table(
            numbers["data"], ["split", "pixels", "RMSE (0-255)", "PSNR", "unused colors", "rare colors"], rows
        )
    for path in written:
        say(f"wrote {path}")


def _format_row(values: Numbers) -> tuple[str, ...]:
    psnr = "exact" if values["psnr_db"] is None else f"{values['psnr_db']:.2f} dB"
    counts = (str(values["unused_colors"]), str(values["rare_colors"]))
    return f"{values['pixels']:,}", f"{values['rmse']:.3f}", psnr, *counts


def _swatches(stored: PaletteFile) -> Text:
    """Draw the palette with colored terminal cells."""
    text = Text()
    for line in plots.arrange_colors(stored.colors, plots.oklab(stored.colors)).int().tolist():
        for red, green, blue in line:
            text.append("  ", style=f"on rgb({red},{green},{blue})")
        text.append("\n")
    return text
