"""Results of `isopix analyze`, `isopix score` and `isopix neighbors`."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from isopix.core.choices import Precision, SplitName
from isopix.core.text import Table, count_of
from isopix.storage.result import Measurement, Result, Unsaved, unsaved

# Name of each score: what it is, for tables.
SCORES = {
    "nats_per_code": "model, nats per code",
    "masked_loss": "masked loss, nats per code",
    "bits_per_dim": "model, bits per dim",
    "png_bits_per_dim": "PNG, bits per dim",
    "bits_minus_png": "model minus PNG, bits per dim",
}


@dataclass(frozen=True)
class ScoreSummary:
    """Mean, standard deviation and standard error of a score, over groups of images where there are some."""

    images: int
    mean: float
    standard_deviation: float | None
    standard_error: float | None

    def __str__(self) -> str:
        return f"{self.mean:.4f}" + ("" if self.standard_error is None else f" ± {self.standard_error:.4f}")


class ScoreResult(Result):
    """The scores of the images of a split: a summary of each by name, and the least likely images.

    Not in the record, in the order of the images: `scores`, `names` (empty where unknown), and `labels`.
    """

    step: int
    precision: Precision
    data: str
    split: SplitName
    summary: Mapping[str, ScoreSummary]
    least_likely: tuple[tuple[str, Mapping[str, float]], ...]
    scores: Unsaved[Mapping[str, Any]] = unsaved()
    names: Unsaved[Sequence[str]] = unsaved()
    short_names: Unsaved[Sequence[str]] = unsaved()
    labels: Unsaved[Sequence[str]] = unsaved()
    images: Unsaved[Any] = unsaved()

    @property
    def caption(self) -> str:
        return "Images with their surprise maps: nats per pixel, brighter for less likely, all on one scale."

    def tables(self) -> list[Table]:
        summary = []
        for name, each in self.summary.items():
            spread = "" if each.standard_deviation is None else f"{each.standard_deviation:.4f}"
            summary.append((SCORES[name], str(each), spread))
        assert self.measurement is not None, "scores have one"
        names = list(self.least_likely[0][1])
        title = "Images with the highest loss" if "masked_loss" in names else "Least likely images"
        rows = [(image, *(f"{scores[name]:.4f}" for name in names)) for image, scores in self.least_likely]
        columns = ("image", *(SCORES[name].removeprefix("model, ") for name in names))
        return [
            Table(self.measurement.line, ("score", "mean ± standard error", "standard deviation"), summary),
            Table(f"{title} of {self.data}", columns, rows),
        ]


@dataclass(frozen=True)
class NamedImage:
    """An image of a split by its index and its name in the source, whole (empty if unknown) and shortened."""

    split: SplitName
    index: int
    name: str
    short_name: str


@dataclass(frozen=True)
class Duplicate:
    """An image of a group of duplicates: whether to keep it, the difference of its pixels to the one that is
    kept, relative to their standard deviation, and the size of the photo.
    """

    image: NamedImage
    keep: bool
    difference: float
    width: int
    height: int


@dataclass(frozen=True)
class Outlier:
    """An image, its mean cosine distance to its nearest images, the nearest one, and flags of the photo."""

    distance: float
    image: NamedImage
    nearest: NamedImage
    flags: str = ""


@dataclass(frozen=True)
class SimilarImage:
    """An image, and the cosine similarity of its features to those of a query."""

    image: NamedImage
    similarity: float


@dataclass(frozen=True)
class Query:
    """An image that was given, and the nearest images to it."""

    image: NamedImage
    nearest: tuple[SimilarImage, ...]


class NeighborsResult(Result):
    """Duplicates and outliers among images, or the nearest images to `queries`; the record has the first.

    Not in it: all groups of `duplicates`, the most similar first, and all images as `outliers`, those
    farthest from others first. `num_duplicates` counts redundant images.
    """

    data: str
    step: int
    layer: int
    pool: str
    precision: Precision
    threshold: float | None
    num_neighbors: int
    num_images: int
    num_duplicates: int
    measurements: tuple[Measurement, ...]
    queries: tuple[Query, ...]
    first_duplicates: tuple[tuple[Duplicate, ...], ...]
    first_outliers: tuple[Outlier, ...]
    duplicates: Unsaved[Any] = unsaved()  # tuples of Duplicate
    outliers: Unsaved[Any] = unsaved()  # Outlier

    @property
    def caption(self) -> str:
        images = "Duplicates, and outliers" if self.num_duplicates else "Outliers"
        shown = "Nearest images to others" if self.queries else f"{images}, each beside its nearest image"
        return f"{shown}, by the features of layer {self.layer}."

    def tables(self) -> list[Table]:
        images = f"{count_of(self.num_images, 'image')} of {self.data}, layer {self.layer}"
        if self.queries:
            found = [
                (
                    query.image.short_name if near is query.nearest[0] else "",
                    near.image.short_name,
                    f"{near.similarity:.4f}",
                )
                for query in self.queries
                for near in query.nearest
            ]
            return [Table(f"Nearest of {images}", ("query", "image", "similarity"), found)]
        title = f"{images}; redundant images: {self.num_duplicates:,}"
        copies = [
            (group[0].image.short_name, each.image.short_name, f"{each.difference:.3f}")
            for group in self.first_duplicates
            for each in group[1:]
        ]
        farthest = [
            (each.image.short_name, each.nearest.short_name, f"{each.distance:.4f}", each.flags)
            for each in self.first_outliers
        ]
        distance = f"mean distance to {self.num_neighbors} nearest"
        difference = f"pixel difference, at most {self.threshold:.3f}"
        return [
            Table(title, ("keep", "duplicate", difference), copies),
            Table("Outliers", ("image", "nearest image", distance, "flags"), farthest),
        ]


class AnalysisResult(Result):
    """Numbers of each analysis by name, earlier calls' too; `shown` are tables of this call."""

    analyses: Mapping[str, Mapping[str, Any]]
    shown: tuple[Table, ...]
    not_applicable: Mapping[str, str]

    def tables(self) -> Sequence[Table]:
        return self.shown

    def figures(self) -> Iterator[tuple[str, Any]]:
        from isopix.analysis.base import registered_analyses  # noqa: PLC0415

        registered = registered_analyses()
        for name, numbers in self.analyses.items():
            if analysis := registered.get(name):
                yield f"{analysis.caption(numbers)} Step {numbers['step']:,}.", analysis.figure(numbers)

    def notes(self) -> list[str]:
        absent = [f"{name} does not apply: {reason}" for name, reason in self.not_applicable.items()]
        return [*absent, *super().notes()]
