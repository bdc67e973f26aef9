"""Near-duplicates and outliers of images by the features of a run, and their files."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor

from isopix.analysis.neighbors import Neighbors, SimilarPairs
from isopix.analysis.results import DuplicatePair, NamedImage, NeighborsResult, Outlier
from isopix.core.choices import Pool, Precision, SplitName
from isopix.core.progress import track
from isopix.core.types import Images
from isopix.data.dataset import ImageDataset
from isopix.data.sources.base import SPLIT_NAMES
from isopix.plots.images import png_bytes
from isopix.plots.sheets import plot_pairs
from isopix.pretrained.images import DataLike, Splits, named_images, opened_images, sample_of_each
from isopix.pretrained.model import PretrainedModel
from isopix.probing.features import iter_features
from isopix.runs.load import LoadedRun
from isopix.storage.atomic import replace_file, write_csv

Pair = tuple[NamedImage, NamedImage]
PAIRS_AT_ONCE = 1_000  # whose pixels are in memory


def compared_images(
    loaded: LoadedRun, data: DataLike | None, split: SplitName | None, limit: int | None
) -> tuple[Splits, list[NamedImage], ImageDataset]:
    """Return the splits with images, all names, and the dataset. Raises ValueError without any image."""
    whole = opened_images(loaded, data, holdout=None if split else 0.0)  # one split, if it has one
    dataset = sample_of_each(whole, limit)
    dataset = replace(dataset, seen_known=loaded.seen_known)
    splits = {name: getattr(dataset, name) for name in ([split] if split else SPLIT_NAMES)}
    splits = {name: each for name, each in splits.items() if len(each)}
    if not splits:
        raise ValueError(f"dataset '{dataset.name}' has no images of {split or 'any'} split")
    return splits, named_images(loaded, data, splits), dataset


def pooled_features(
    model: PretrainedModel, splits: Splits, layer: int, pool: Pool, precision: Precision
) -> Float[Tensor, "N D"]:
    """Return the pooled features of one layer. Raises ValueError for a layer that does not exist."""
    if not 0 <= layer <= model.depth:
        raise ValueError(f"layer {layer} does not exist; layers are 0 to {model.depth}")
    network, parts, done = model.network.truncated(layer), [], 0
    read = (iter_features(network, each.images, pool=pool, precision=precision) for each in splits.values())
    with track("computing features", sum(map(len, splits.values()))) as count:
        for batch in chain.from_iterable(read):
            parts.append(batch[-1].clone())  # without the other layers, which share its memory
            done += len(parts[-1])
            count(done)
    return torch.cat(parts)


def duplicate_pairs(found: SimilarPairs, names: Sequence[NamedImage], splits: Splits) -> list[DuplicatePair]:
    """Return the similar pairs with the mean absolute difference of their pixels."""
    pairs = [
        (names[first], names[second])
        for first, second in zip(found.first.tolist(), found.second.tolist(), strict=True)
    ]
    differences: list[float] = []
    for start in range(0, len(pairs), PAIRS_AT_ONCE):
        first, second = _pixels(splits, pairs[start : start + PAIRS_AT_ONCE])
        differences += (first.int() - second.int()).abs().float().mean((1, 2, 3)).tolist()
    return [
        DuplicatePair(similarity, *pair, difference)
        for similarity, pair, difference in zip(found.similarity.tolist(), pairs, differences, strict=True)
    ]


def farthest_images(found: Neighbors, names: Sequence[NamedImage]) -> list[Outlier]:
    """Return all images, those farthest from others first."""
    order = found.distances.argsort(descending=True, stable=True).tolist()
    distances, nearest = found.distances.tolist(), found.indices[:, 0].tolist()
    return [Outlier(distances[i], names[i], names[nearest[i]]) for i in order]


def save_neighbors(path: Path, result: NeighborsResult, splits: Splits, count: int) -> NeighborsResult:
    """Write the record, duplicates.csv, outliers.csv, and pictures of the first `count` of both lists."""
    path.mkdir(parents=True, exist_ok=True)
    pairs, outliers = result.duplicates, result.outliers
    header = ["similarity", *_columns("first", "second"), "pixel_difference"]
    rows = [[each.similarity, *_named(each.first, each.second), each.pixel_difference] for each in pairs]
    write_csv(path / "duplicates.csv", header, rows)
    header = ["distance", *_columns("image", "nearest")]
    rows = [[each.distance, *_named(each.image, each.nearest)] for each in outliers]
    write_csv(path / "outliers.csv", header, rows)
    if count and pairs:
        title = (
            f"{result.num_duplicates:,} pairs with a similarity of features of {result.threshold:g} or more, "
        )
        title += "the most similar first; in parentheses the mean difference of their pixels, 0 to 255"
        labels = [f"{each.similarity:.4f} (pixels {each.pixel_difference:.1f})" for each in pairs[:count]]
        shown = [(each.first, each.second) for each in pairs[:count]]
        replace_file(path / "duplicates.png", _picture(title, labels, shown, splits))
    if count:
        title = "Outliers by features, each beside its nearest image, with its mean distance to the nearest "
        labels = [f"{each.distance:.4f}" for each in outliers[:count]]
        shown = [(each.image, each.nearest) for each in outliers[:count]]
        replace_file(path / "outliers.png", _picture(f"{title}{result.num_neighbors}", labels, shown, splits))
    return result.saved(path)


def _picture(title: str, values: Sequence[str], pairs: Sequence[Pair], splits: Splits) -> bytes:
    labels = [
        (value, first.short_name, second.short_name)
        for value, (first, second) in zip(values, pairs, strict=True)
    ]
    return png_bytes(plot_pairs(title, *_pixels(splits, pairs), labels))


def _pixels(splits: Splits, pairs: Sequence[Pair]) -> tuple[Images, Images]:
    first, second = (
        torch.cat([splits[each.split].images[each.index : each.index + 1].cpu() for each in images])
        for images in zip(*pairs, strict=True)
    )
    return first, second


def _named(*images: NamedImage) -> list[object]:
    return [value for each in images for value in (each.split, each.index, each.name)]


def _columns(*images: str) -> list[str]:
    return [f"{image}_{name}" for image in images for name in ("split", "index", "name")]
