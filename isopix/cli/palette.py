"""`isopix palette`: fit, import and inspect color palettes."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter
from rich.text import Text

from isopix.api import palette
from isopix.api.results import PaletteOutput
from isopix.cli.console import Json, Limit, Seed, console, say, say_wrapped, show_json, show_table
from isopix.codecs.palette_file import PaletteFile
from isopix.plots import palette as plots

app = App(
    name="palette",
    help="""Fit, import and inspect color palettes.

Example: isopix palette fit --data photos/ --out palette.npz
""",
)

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
    """Fit a palette to the training images of a dataset, by k-means over all their pixels.

    Besides the palette file, writes pictures of the palette and of images before and after quantization, and
    their numbers: palette.png, palette-images.png, .svg and .json for palette.npz.

    Example: isopix palette fit --data photos/ --colors 512 --out palette.npz

    Parameters
    ----------
    data
        Dataset: an image folder, .npz, Parquet, tar or Arrow files, or name (digits, cifar10, ...).
    out
        Palette file to write, ending in .npz; pictures are written next to it.
    colors
        Number of colors.
    """
    _print(palette.fit(data=data, out=out, colors=colors, size=size, limit=limit, seed=seed), json=json)


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
    _print(palette.import_(file, out=out, value_range=range_), json=json)


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
    """Show a palette and its quantization error, unused colors and rare colors on a dataset.

    Example: isopix palette show palette.npz --data photos/ --out figures/palette

    Parameters
    ----------
    file
        Palette file.
    data
        Dataset to measure the quantization error on.
    out
        Path prefix of figures and numbers to write.
    """
    _print(palette.show(file, data=data, out=out, size=size, limit=limit, seed=seed), json=json)


def _print(found: PaletteOutput, *, json: bool) -> None:
    numbers = found.record
    if json:
        show_json({**numbers, "written": [str(path) for path in found.files]})
        return
    if console.is_terminal:
        console.print(_swatches(found.palette))
    say_wrapped(
        f"{numbers['num_colors']} colors: {numbers['source']} (fingerprint {numbers['fingerprint'][:12]})"
    )
    if "splits" in numbers:
        rows = [(name, *_format_row(values)) for name, values in numbers["splits"].items()]
        show_table(
            numbers["data"], ["split", "pixels", "RMSE (0-255)", "PSNR", "unused colors", "rare colors"], rows
        )
    for path in found.files:
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
