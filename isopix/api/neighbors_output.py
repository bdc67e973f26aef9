"""What neighbors returns: similar pairs, outliers, and their files."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple

from jaxtyping import Int
from torch import Tensor

from isopix.analysis.neighbors import Neighbors
from isopix.api.notebook import TableOutput
from isopix.core.table import Table
from isopix.core.types import Images
from isopix.data.image_names import shared_folder, short_name
from isopix.data.sources.base import SplitName
from isopix.plots.images import png_bytes
from isopix.plots.sheets import PairLabel, plot_pairs
from isopix.storage.atomic import replace_file, write_csv, write_json

ImagesOf = Callable[[Int[Tensor, " n"]], Images]  # by their index over all splits


@dataclass(frozen=True)
class NamedImage:
    """An image of a split by its index there and the name in its source, empty where unknown."""

    split: SplitName
    index: int
    name: str


class DuplicatePair(NamedTuple):
    """Two images, the cosine similarity of their standardized features, and the mean absolute difference of
    their pixels, 0 to 255, at the size that the model reads: similar features are no proof of a copy.
    """

    similarity: float
    first: NamedImage
    second: NamedImage
    pixel_difference: float


class Outlier(NamedTuple):
    """An image, its mean cosine distance to its nearest neighbors, and the nearest one."""

    distance: float
    image: NamedImage
    nearest: NamedImage


@dataclass(frozen=True, repr=False)
class NeighborsOutput(TableOutput):
    """Near-duplicates, the most similar first (`num_duplicates` counts all pairs, also those beyond the
    100,000 that are listed), and all images by their distance to others, outliers first.
    """

    duplicates: Sequence[DuplicatePair]
    num_duplicates: int
    outliers: Sequence[Outlier]
    record: Mapping[str, Any]
    path: Path | None

    def short_names(self, images: Iterable[NamedImage]) -> dict[NamedImage, str]:
        """Return the names of images without the folder that all images of the data are in; split and index
        without a name.
        """
        folder = shared_folder(each.image.name for each in self.outliers)
        return {
            each: short_name(each.name, folder) if each.name else f"{each.split} {each.index}"
            for each in images
        }

    def table(self) -> Table:
        """Return a table of the most similar pairs and of the first outliers, each with its nearest image."""
        found = [("near-duplicates", *each[:3]) for each in self.duplicates[:LISTED]]
        found += [("outlier", *each) for each in self.outliers[:LISTED]]
        names = self.short_names(image for each in found for image in each[2:])
        rows = [(kind, f"{value:.4f}", names[first], names[second]) for kind, value, first, second in found]
        images = f"{len(self.outliers):,} images of {self.record['data']}, layer {self.record['layer']}"
        caption = (
            f"{images}: pairs with a similarity of {self.record['threshold']:g} or more "
            f"({self.num_duplicates:,}), and outliers by their mean distance to the "
            f"{self.record['num_neighbors']} nearest images"
        )
        return Table(caption, ("", "similarity or distance", "image", "nearest image"), rows)


LISTED = 5  # pairs and outliers in the table
NAMED = [each.name for each in fields(NamedImage)]


def save_neighbors(
    path: Path,
    output: NeighborsOutput,
    images: ImagesOf,
    found: Neighbors,
    count: int,
) -> None:
    """Write duplicates.csv, outliers.csv and neighbors.json, and pictures of the first of both lists."""
    path.mkdir(parents=True, exist_ok=True)
    pairs = [[*_row(*each[:3]), each.pixel_difference] for each in output.duplicates]
    rows = [_row(*each) for each in output.outliers]
    header = ["similarity", *_columns("first", "second"), "pixel_difference"]
    write_csv(path / "duplicates.csv", header, pairs)
    write_csv(path / "outliers.csv", ["distance", *_columns("image", "nearest")], rows)
    write_json(path / "neighbors.json", output.record)
    if count and pairs:
        shown = output.duplicates[:count]
        values = [f"{each.similarity:.4f} (pixels {each.pixel_difference:.1f})" for each in shown]
        total, least = output.num_duplicates, output.record["threshold"]
        title = f"Pairs with a similarity of features of {least:g} or more: {total:,}, the most similar first"
        title += "; in parentheses the mean difference of their pixels, 0 to 255"
        chosen = [(each.first, each.second) for each in shown]
        first, second = (images(each[:count]) for each in found.pairs[:2])
        labels = _labels(output, values, chosen)
        replace_file(path / "duplicates.png", png_bytes(plot_pairs(title, first, second, labels)))
    if count:
        order = found.distances.argsort(descending=True, stable=True)[:count]
        title = "Outliers by features, each beside its nearest image, with its mean distance to the nearest "
        title += f"{output.record['num_neighbors']}"
        values = [f"{each.distance:.4f}" for each in output.outliers[:count]]
        chosen = [(each.image, each.nearest) for each in output.outliers[:count]]
        first, second = images(order), images(found.indices[order, 0])
        labels = _labels(output, values, chosen)
        replace_file(path / "outliers.png", png_bytes(plot_pairs(title, first, second, labels)))


def _labels(
    output: NeighborsOutput, values: Sequence[str], pairs: Sequence[tuple[NamedImage, NamedImage]]
) -> list[PairLabel]:
    names = output.short_names(image for pair in pairs for image in pair)
    return [
        PairLabel(value, *(names[each] for each in pair)) for value, pair in zip(values, pairs, strict=True)
    ]


def _row(value: float, first: NamedImage, second: NamedImage) -> list[object]:
    return [value, *astuple(first), *astuple(second)]


def _columns(*prefixes: str) -> list[str]:
    return [f"{prefix}_{name}" for prefix in prefixes for name in NAMED]
