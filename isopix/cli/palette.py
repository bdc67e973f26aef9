"""`isopix palette`: fit, import and inspect colour palettes."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter
from rich.text import Text

from isopix.cli.console import Json, Limit, Seed, console, say, show_json, show_table
from isopix.cli.loading import load_images
from isopix.codecs import kmeans, palette_file
from isopix.codecs.palette import Palette
from isopix.codecs.palette_file import StoredPalette
from isopix.codecs.quantization_error import Fidelity, measure
from isopix.core.types import Grid
from isopix.data.dataset import Data, ImageSet
from isopix.plots import palette as plots
from isopix.plots import style

app = App(
    name="palette",
    help="""Fit, import and inspect colour palettes.

Example: isopix palette fit --data photos/ --out palette.npz
""",
)

SHOWN = 10  # images in the picture of before and after

Numbers = Mapping[str, Any]
Size = Annotated[tuple[int, int], Parameter(negative="", help="rows and columns to which images are resized")]
Range = Annotated[
    tuple[float, float] | None,
    Parameter(
        name="--range", negative="", help="the file's values of black and white, such as -1 1, 0 1 or 0 255"
    ),
]


@app.command
def fit(
    *,
    data: str,
    out: Path,
    colours: int = 512,
    size: Size = (32, 32),
    limit: Limit = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Fit k colours to the training images of a data set, by k-means over all their pixels.

    Writes the palette and, beside it, pictures of it and of images before and after, with their numbers.

    Example: isopix palette fit --data photos/ --colours 512 --out palette.npz

    Parameters
    ----------
    data
        A folder of images, an .npz file, a Parquet file or folder, or a name (digits, cifar10, ...).
    out
        The palette file, ending in .npz.
    colours
        How many.
    """
    palette_file.check_name(out)
    images = _load(data, size, limit, seed)
    found = kmeans.fit(images.train.images, colours, seed=seed)
    source = f"k-means on {images.name} at {size[0]}×{size[1]}, seed {seed}"
    stored = StoredPalette(found.colours, source, found.fidelity.counts)
    palette_file.write(out, stored)
    numbers = {**_facts(stored), "iterations": found.iterations, **_losses(stored, images)}
    _finish(stored, numbers, [out, *_draw(out, stored, numbers, images)], json=json)


@app.command(name="import")
def import_palette(file: Path, *, out: Path, range_: Range = None, json: Json = False) -> None:
    """Make a palette file of an array of colours, one a row, in a .npy or .npz file.

    The value range must be stated, but for OpenAI's kmeans_centers.npy, which is known by its hash.

    Example: isopix palette import clusters.npy --range -1 1 --out palette.npz

    Parameters
    ----------
    file
        An array of shape (colours, 3).
    out
        The palette file, ending in .npz.
    """
    palette_file.check_name(out)
    stored = palette_file.read(file, range_)
    palette_file.write(out, stored)
    numbers = _facts(stored)
    _finish(stored, numbers, [out, *_draw(out, stored, numbers)], json=json)


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
    """Show a palette and, on images, what it loses: error, dead colours, rare colours.

    Example: isopix palette show palette.npz --data photos/ --out pictures/palette

    Parameters
    ----------
    file
        A palette file.
    data
        Images to measure it on.
    out
        Write pictures and numbers too, under names that start so.
    """
    stored = palette_file.read(file)
    images = None if data is None else _load(data, size, limit, seed)
    numbers = {**_facts(stored), **({} if images is None else _losses(stored, images))}
    _finish(stored, numbers, [] if out is None else _draw(out, stored, numbers, images), json=json)


def _load(source: str, size: tuple[int, int], limit: int | None, seed: int) -> ImageSet:
    return load_images(Data(source=source, rows=size[0], cols=size[1], limit=limit), seed)


def _facts(stored: StoredPalette) -> dict[str, Any]:
    return {"colours": len(stored.colours), "source": stored.source, "fingerprint": stored.fingerprint}


def _losses(stored: StoredPalette, images: ImageSet) -> dict[str, Any]:
    """What the palette does to each split that has images."""
    palette = Palette(stored.colours, Grid(1, 1))
    splits = {"train": images.train, "validation": images.validation, "test": images.test}
    return {
        "data": images.name,
        "splits": {
            name: _numbers(measure(palette, split.images)) for name, split in splits.items() if len(split)
        },
    }


def _numbers(found: Fidelity) -> dict[str, Any]:
    return {
        "pixels": found.pixels,
        "rmse_levels": found.rmse,
        "psnr_db": found.psnr,
        "dead_colours": found.dead,
        "rare_colours": found.rare,
    }


def _draw(out: Path, stored: StoredPalette, numbers: Numbers, images: ImageSet | None = None) -> list[Path]:
    """The pictures with their numbers, beside `out`."""
    stem = out.with_suffix("")
    counts = None if stored.counts is None else stored.counts.tolist()
    title = f"{len(stored.colours)} colours: {stored.source}"
    figure = plots.plot_palette(stored.colours, stored.counts, title=title)
    written = style.write_figure(
        figure, stem, {**numbers, "levels": stored.colours.tolist(), "counts": counts}
    )
    if images is None:
        return list(written)
    split = images.test if len(images.test) else images.train
    before = split.images[:SHOWN]
    rows, cols = before.shape[2:]
    palette = Palette(stored.colours, Grid(rows, cols))
    after = palette.decode(palette.encode(before))
    errors = (before.double() - after.double()).square().mean(dim=(1, 2, 3)).sqrt()
    figure = plots.plot_quantization(before, after)
    name = stem.with_name(f"{stem.name}-images")
    return [*written, *style.write_figure(figure, name, {"rmse_levels_per_image": errors.tolist()})]


def _finish(stored: StoredPalette, numbers: Numbers, written: list[Path], *, json: bool) -> None:
    if json:
        show_json({**numbers, "written": [str(path) for path in written]})
        return
    if console.is_terminal:
        console.print(_swatches(stored))
    say(f"{numbers['colours']} colours: {numbers['source']} (fingerprint {numbers['fingerprint'][:12]})")
    if "splits" in numbers:
        rows = [(name, *_row(values)) for name, values in numbers["splits"].items()]
        show_table(numbers["data"], ["split", "pixels", "RMSE of 255", "PSNR", "dead", "rare"], rows)
    for path in written:
        say(f"wrote {path}")


def _row(values: Numbers) -> tuple[str, ...]:
    psnr = "no error" if values["psnr_db"] is None else f"{values['psnr_db']:.2f} dB"
    counts = (str(values["dead_colours"]), str(values["rare_colours"]))
    return f"{values['pixels']:,}", f"{values['rmse_levels']:.3f}", psnr, *counts


def _swatches(stored: StoredPalette) -> Text:
    """The picture of the palette in blocks of the terminal's own."""
    text = Text()
    for line in plots.arrange_colors(stored.colours, plots.oklab(stored.colours)).int().tolist():
        for red, green, blue in line:
            text.append("  ", style=f"on rgb({red},{green},{blue})")
        text.append("\n")
    return text
