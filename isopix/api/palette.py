"""Color palettes from Python: fit, import_ and show."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from isopix.api.arguments import PathLike, checked
from isopix.api.results import PaletteOutput
from isopix.codecs import kmeans, palette_file
from isopix.codecs.palette import Palette
from isopix.codecs.palette_file import PaletteFile, ValueRange
from isopix.codecs.quantization_error import QuantizationError, quantization_error
from isopix.core.ranges import Count
from isopix.core.types import Grid
from isopix.data.dataset import DataConfig, ImageDataset
from isopix.plots import palette as plots
from isopix.plots import style
from isopix.pretrained.run import DataLike, load_images

EXAMPLES = 10  # images in the figure of quantized images


@checked
def fit(
    *,
    data: DataLike,
    out: PathLike,
    colors: Count = 512,
    size: tuple[int, int] = (32, 32),
    limit: Count | None = None,
    seed: int = 0,
) -> PaletteOutput:
    """Fit a palette to the training images of a dataset by k-means over all their pixels.

    Images are resized to `size` (rows, columns). Writes the palette file `out`, ending in .npz, and figures
    next to it. Raises ValueError for another ending and for impossible arguments.
    """
    path = Path(out)
    palette_file.check_palette_path(path)
    images = _load(data, size, limit, seed)
    found = kmeans.fit_palette(images.train.images, colors, seed=seed)
    source = f"k-means on {images.name} at {size[0]}×{size[1]}, seed {seed}"
    stored = PaletteFile(found.colors, source, found.error.counts)
    palette_file.write_palette(path, stored)
    errors = _errors(stored, images)
    record = {**_description(stored), "iterations": found.iterations, **_error_table(images.name, errors)}
    files = (path, *_save_figures(path, stored, record, images))
    return PaletteOutput(stored, errors, images.name, found.iterations, record, files)


@checked
def import_(file: PathLike, *, out: PathLike, value_range: ValueRange | None = None) -> PaletteOutput:
    """Make a palette file of an array of colors [K 3] in a .npy or .npz file.

    `value_range` are the array's values of black and white; OpenAI's kmeans_centers.npy is recognized by its
    hash. Raises ValueError if it is not stated, or for an invalid array.
    """
    path = Path(out)
    palette_file.check_palette_path(path)
    stored = palette_file.read_palette(Path(file), value_range)
    palette_file.write_palette(path, stored)
    record = _description(stored)
    files = (path, *_save_figures(path, stored, record))
    return PaletteOutput(stored, {}, None, None, record, files)


@checked
def show(
    file: PathLike,
    *,
    data: DataLike | None = None,
    out: PathLike | None = None,
    size: tuple[int, int] = (32, 32),
    limit: Count | None = None,
    seed: int = 0,
) -> PaletteOutput:
    """Return a palette and its quantization error on images; with `out`, also write figures under that name.

    Raises ValueError for an invalid palette file.
    """
    stored = palette_file.read_palette(Path(file))
    images = None if data is None else _load(data, size, limit, seed)
    errors = {} if images is None else _errors(stored, images)
    name = None if images is None else images.name
    record = {**_description(stored), **({} if name is None else _error_table(name, errors))}
    files = () if out is None else tuple(_save_figures(Path(out), stored, record, images))
    return PaletteOutput(stored, errors, name, None, record, files)


def _description(stored: PaletteFile) -> dict[str, Any]:
    return {"num_colors": len(stored.colors), "source": stored.source, "fingerprint": stored.fingerprint}


def _error_table(data: str, errors: Mapping[str, QuantizationError]) -> dict[str, Any]:
    splits = {
        name: {
            "pixels": found.num_pixels,
            "rmse": found.rmse,
            "psnr_db": found.psnr,
            "unused_colors": found.num_unused,
            "rare_colors": found.num_rare,
        }
        for name, found in errors.items()
    }
    return {"data": data, "splits": splits}


def _load(data: DataLike, size: tuple[int, int], limit: int | None, seed: int) -> ImageDataset:
    if isinstance(data, ImageDataset):
        return data
    return load_images(DataConfig(source=str(data), rows=size[0], cols=size[1], limit=limit, seed=seed))


def _errors(stored: PaletteFile, images: ImageDataset) -> dict[str, QuantizationError]:
    palette = Palette(stored.colors, Grid(1, 1))
    splits = {"train": images.train, "validation": images.validation, "test": images.test}
    return {name: quantization_error(palette, split.images) for name, split in splits.items() if len(split)}


def _save_figures(
    out: Path, stored: PaletteFile, numbers: Mapping[str, Any], images: ImageDataset | None = None
) -> Iterable[Path]:
    """Save figures of the palette and of images before and after, with their numbers, next to `out`."""
    stem = out.with_suffix("")
    counts = None if stored.counts is None else stored.counts.tolist()
    title = f"{len(stored.colors)} colors: {stored.source}"
    figure = plots.plot_palette(stored.colors, stored.counts, title=title)
    written = style.write_figure(figure, stem, {**numbers, "rgb": stored.colors.tolist(), "counts": counts})
    if images is None:
        return written
    split = images.test if len(images.test) else images.train
    before = split.images[:EXAMPLES]
    rows, cols = before.shape[2:]
    palette = Palette(stored.colors, Grid(rows, cols))
    after = palette.decode(palette.encode(before))
    errors = (before.double() - after.double()).square().mean(dim=(1, 2, 3)).sqrt()
    figure = plots.plot_quantization(before, after)
    name = stem.with_name(f"{stem.name}-images")
    return [*written, *style.write_figure(figure, name, {"rmse_per_image": errors.tolist()})]
