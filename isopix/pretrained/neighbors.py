"""Neighbors of images with names: duplicates and which to keep, outliers and their flags, and their files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from operator import attrgetter
from pathlib import Path
from typing import Any

import torch
from PIL import Image

from isopix.analysis.neighbors import Neighbors, duplicate_groups, pixel_differences
from isopix.analysis.results import Duplicate, NamedImage, NeighborsResult, Outlier, Query, SimilarImage
from isopix.core.choices import SplitName
from isopix.data.copies import Groups
from isopix.data.dataset import DataConfig, ImageDataset
from isopix.data.sources.base import SourceSplit
from isopix.data.splits import Split
from isopix.data.survey import ImageFacts, examine_image, whole_source
from isopix.plots.images import png_bytes
from isopix.plots.sheets import COLUMNS, SheetLine, plot_contact_sheet
from isopix.storage.atomic import replace_file, write_csv

SHOWN = 10  # of each list in the record
FLAGGED = 100  # outliers whose photos are examined
GROUPS = "keep difference width height image.split image.index image.name"
SHEETS = {  # titles of pictures
    "queries": "Queries, left, and their nearest images",
    "duplicates": "Groups of duplicates",
    "outliers": "Outliers, left, and the nearest image of each",
}
OUTLIERS = "distance flags image.split image.index image.name nearest.split nearest.index nearest.name"


@dataclass(frozen=True)
class NamedSplits:
    """The images of some splits of a dataset, one split after the other, with the name of each."""

    dataset: ImageDataset
    splits: Mapping[SplitName, Split]
    names: Sequence[NamedImage]
    source: DataConfig

    @cached_property
    def whole(self) -> Split:
        return reduce(Split.concat, self.splits.values())

    @cached_property
    def places(self) -> dict[NamedImage, int]:
        return {each: i for i, each in enumerate(self.names)}

    def picture(self, image: NamedImage) -> Image.Image:
        """Return the photo, small."""
        found = self.facts(self.places[image]).picture
        assert found is not None, "it was asked for"
        return found

    def facts(self, index: int) -> ImageFacts:
        """Return what the photo of an image is. Raises ValueError if it can no longer be read."""
        assert self.whole.rows is not None, "a source has them"
        row = int(self.whole.rows[index])
        found = examine_image((next(self._photos.images(row, row + 1)), True), self.source)
        if isinstance(found, str):
            raise ValueError(f"{self.names[index].name}: {found}")
        return found

    @cached_property
    def _photos(self) -> SourceSplit:
        return whole_source(self.source)


def kept_duplicates(groups: Groups, images: NamedSplits) -> list[tuple[Duplicate, ...]]:
    """Return groups, the most similar first: in each the largest photo is kept, of equal ones that
    of the shortest name, of those the first.

    Differences are those of pixels to the image that is kept (`pixel_differences`).
    """
    found = []
    for members in groups:
        facts = {index: images.facts(index) for index in members}
        areas = {index: facts[index].width * facts[index].height for index in members}
        kept = max(members, key=lambda i: (areas[i], -len(images.names[i].name)))
        order = [kept, *(index for index in members if index != kept)]
        pairs = torch.full((len(order),), kept), torch.tensor(order)
        differences = pixel_differences(images.whole.images, *pairs).tolist()
        found.append(
            tuple(
                Duplicate(images.names[i], i == kept, difference, facts[i].width, facts[i].height)
                for i, difference in zip(order, differences, strict=True)
            )
        )
    return sorted(found, key=lambda group: max(each.difference for each in group))


def farthest_images(found: Neighbors, images: NamedSplits) -> list[Outlier]:
    """Return all images, those farthest from others first, and flags of the first `FLAGGED` photos."""
    order = found.distances.argsort(descending=True, stable=True).tolist()
    distances, nearest = found.distances.tolist(), found.indices[:, 0].tolist()
    names = images.names
    outliers = [Outlier(distances[i], names[i], names[nearest[i]]) for i in order]
    flagged = zip(outliers[:FLAGGED], order, strict=False)
    outliers[:FLAGGED] = [replace(each, flags=", ".join(images.facts(i).flags)) for each, i in flagged]
    return outliers


def similar_images(found: Neighbors, queries: NamedSplits, images: NamedSplits) -> list[Query]:
    """Return each query with its nearest images."""
    pairs = zip(queries.names, found.indices.tolist(), found.similarities.tolist(), strict=True)
    return [
        Query(name, tuple(SimilarImage(images.names[i], value) for i, value in zip(*nearest, strict=True)))
        for name, *nearest in pairs
    ]


def lists_of(
    near: Neighbors, images: NamedSplits, queries: NamedSplits | None, threshold: float | None
) -> dict[str, Any]:
    """Return the lists of the result: of the nearest images to queries, or else duplicates and outliers."""
    duplicates, outliers = list[tuple[Duplicate, ...]](), list[Outlier]()
    if queries is None:
        groups, threshold = duplicate_groups(near, images.whole.images, threshold)
        duplicates, outliers = kept_duplicates(groups, images), farthest_images(near, images)
    return {
        "threshold": threshold,
        "num_duplicates": sum(len(group) - 1 for group in duplicates),
        "queries": () if queries is None else tuple(similar_images(near, queries, images)),
        "first_duplicates": tuple(duplicates[:SHOWN]),
        "first_outliers": tuple(outliers[:SHOWN]),
        "duplicates": duplicates,
        "outliers": outliers,
    }


def save_neighbors(
    path: Path, result: NeighborsResult, count: int, images: NamedSplits, queries: NamedSplits
) -> NeighborsResult:
    """Write the record, and a CSV file and a picture of the first `count` of each list."""
    path.mkdir(parents=True, exist_ok=True)
    if result.queries:
        found = [(each.image.name, near) for each in result.queries for near in each.nearest]
        rows = [(query, near.similarity, near.image.name) for query, near in found]
        write_csv(path / "queries.csv", ["query", "similarity", "image"], rows)
    else:
        groups = [
            (str(i), *attrgetter(*GROUPS.split())(each))
            for i, own in enumerate(result.duplicates)
            for each in own
        ]
        write_csv(path / "duplicates.csv", ["group", *GROUPS.replace("image.", "").split()], groups)
        outliers = map(attrgetter(*OUTLIERS.split()), result.outliers)
        write_csv(path / "outliers.csv", OUTLIERS.replace(".", "_").split(), outliers)
    for name in ("queries", "duplicates", "outliers"):
        lines = [_line(each, images, queries) for each in getattr(result, name)[:count]]
        if lines:
            title = f"{SHEETS[name]} in {result.data}, by the features of layer {result.layer}"
            replace_file(path / f"{name}.png", png_bytes(plot_contact_sheet(title, lines)))
    return result.saved(path)


def _line(
    found: Query | Outlier | tuple[Duplicate, ...], images: NamedSplits, queries: NamedSplits
) -> SheetLine:
    if isinstance(found, Query):
        near = [images.picture(each.image) for each in found.nearest[: COLUMNS - 1]]
        note = f"nearest: similarity {found.nearest[0].similarity:.2f}"
        return SheetLine(found.image.short_name, note, [queries.picture(found.image), *near])
    if isinstance(found, Outlier):
        pictures = [images.picture(each) for each in (found.image, found.nearest)]
        return SheetLine(found.image.short_name, f"{found.distance:.4f} {found.flags}", pictures)
    difference = f"difference up to {max(each.difference for each in found):.3f}"
    return SheetLine(
        found[0].image.short_name, difference, [images.picture(each.image) for each in found[:COLUMNS]]
    )
