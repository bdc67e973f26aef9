"""Near-duplicates and outliers of images by the features of a run, and their files."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, fields, replace
from functools import partial
from pathlib import Path

import torch
from jaxtyping import Float, Int
from torch import Tensor

from isopix.analysis.neighbors import Neighbors, SimilarPairs
from isopix.analysis.results import DuplicatePair, NamedImage, NeighborsResult, Outlier
from isopix.core.choices import Pool, Precision, SplitName
from isopix.core.progress import track
from isopix.core.text import printable
from isopix.core.types import Images
from isopix.data.dataset import ImageDataset
from isopix.data.image_names import image_names, shared_folder, short_name
from isopix.data.sources.base import SPLIT_NAMES
from isopix.data.splits import Split
from isopix.plots.images import png_bytes
from isopix.plots.sheets import plot_pairs
from isopix.pretrained.model import PretrainedModel
from isopix.pretrained.run import DataLike, check_size, evaluation_data, load_images, sample_of_each
from isopix.probing.features import iter_features
from isopix.runs.load import LoadedRun
from isopix.storage.atomic import replace_file, write_csv

Splits = Mapping[SplitName, Split]
ImagesOf = Callable[[Int[Tensor, " n"]], Images]  # by their index over all splits

PAIRS_AT_ONCE = 1_000  # whose pixels are in memory
NAMED = [each.name for each in fields(NamedImage)][:3]


def compared_images(
    loaded: LoadedRun, data: DataLike | None, split: SplitName | None, limit: int | None
) -> tuple[Splits, list[NamedImage], ImageDataset]:
    """Return the splits with images, all names, and the dataset. Raises ValueError without any image."""
    if isinstance(data, ImageDataset):
        check_size(data, loaded)
        dataset, config = sample_of_each(data, limit), None
    else:
        config = evaluation_data(loaded, data)
        whole = config if split is not None else replace(config, holdout=0.0)  # one split, if it has one
        dataset = sample_of_each(load_images(whole), limit)
    dataset = replace(dataset, seen_known=loaded.seen_known)
    asked = SPLIT_NAMES if split is None else (split,)
    splits: dict[SplitName, Split] = {name: getattr(dataset, name) for name in asked}
    splits = {name: each for name, each in splits.items() if len(each)}
    if not splits:
        raise ValueError(f"dataset '{dataset.name}' has no {split or ''} images".replace("  ", " "))
    names = {name: [""] * len(each) for name, each in splits.items()}
    if config is not None:
        names = {name: image_names(config, each) for name, each in splits.items()}
    folder = shared_folder(each for own in names.values() for each in own)
    named = [
        NamedImage(name, i, text := printable(each), short_name(text, folder) if text else f"{name} {i}")
        for name, own in names.items()
        for i, each in enumerate(own)
    ]
    return splits, named, dataset


def layer_features(
    model: PretrainedModel, splits: Splits, layer: int, pool: Pool, precision: Precision
) -> Float[Tensor, "N D"]:
    """Return the pooled features of one layer. Raises ValueError for a layer that does not exist."""
    if not 0 <= layer <= model.depth:
        raise ValueError(f"layer {layer} does not exist; layers are 0 to {model.depth}")
    network, parts, done = model.network.truncated(layer), [], 0
    with track("computing features", sum(map(len, splits.values()))) as count:
        for split in splits.values():
            for batch in iter_features(network, split.images, pool=pool, precision=precision):
                parts.append(batch[-1].clone())  # without the other layers, which share its memory
                done += len(parts[-1])
                count(done)
    return torch.cat(parts)


def duplicate_pairs(found: Neighbors, names: Sequence[NamedImage], splits: Splits) -> list[DuplicatePair]:
    """Return the similar pairs with the difference of their pixels."""
    differences = _pixel_differences(found.pairs, partial(_selected, splits))
    columns = (*(each.tolist() for each in found.pairs[:3]), differences)
    return [
        DuplicatePair(value, names[first], names[second], difference)
        for first, second, value, difference in zip(*columns, strict=True)
    ]


def farthest_images(found: Neighbors, names: Sequence[NamedImage]) -> list[Outlier]:
    """Return all images, those farthest from others first."""
    order = found.distances.argsort(descending=True, stable=True).tolist()
    distances, nearest = found.distances.tolist(), found.indices[:, 0].tolist()
    return [Outlier(distances[i], names[i], names[nearest[i]]) for i in order]


def save_neighbors(
    path: Path, result: NeighborsResult, found: Neighbors, splits: Splits, count: int
) -> NeighborsResult:
    """Write the record, duplicates.csv, outliers.csv, and pictures of the first `count` of both lists."""
    path.mkdir(parents=True, exist_ok=True)
    pairs = [
        [each.similarity, *_named(each.first), *_named(each.second), each.pixel_difference]
        for each in result.duplicates
    ]
    rows = [[each.distance, *_named(each.image), *_named(each.nearest)] for each in result.outliers]
    header = ["similarity", *_columns("first", "second"), "pixel_difference"]
    write_csv(path / "duplicates.csv", header, pairs)
    write_csv(path / "outliers.csv", ["distance", *_columns("image", "nearest")], rows)
    images = partial(_selected, splits)
    if count and pairs:
        title = f"Pairs with a similarity of features of {result.threshold:g} or more: "
        title += f"{result.num_duplicates:,}, the most similar first"
        title += "; in parentheses the mean difference of their pixels, 0 to 255"
        labels = [
            (
                f"{each.similarity:.4f} (pixels {each.pixel_difference:.1f})",
                each.first.short_name,
                each.second.short_name,
            )
            for each in result.duplicates[:count]
        ]
        first, second = (images(each[:count]) for each in found.pairs[:2])
        replace_file(path / "duplicates.png", png_bytes(plot_pairs(title, first, second, labels)))
    if count:
        order = found.distances.argsort(descending=True, stable=True)[:count]
        title = "Outliers by features, each beside its nearest image, with its mean distance to the nearest "
        labels = [
            (f"{each.distance:.4f}", each.image.short_name, each.nearest.short_name)
            for each in result.outliers[:count]
        ]
        sheet = plot_pairs(
            f"{title}{result.num_neighbors}", images(order), images(found.indices[order, 0]), labels
        )
        replace_file(path / "outliers.png", png_bytes(sheet))
    return result.saved(path)


def _selected(splits: Splits, indices: Int[Tensor, " n"]) -> Images:
    """Return images by their index over all splits."""
    found, ends = [], torch.tensor([len(each) for each in splits.values()]).cumsum(0)
    parts = list(splits.values())
    for index in indices.tolist():
        part = int((ends <= index).sum())
        local = index - (int(ends[part - 1]) if part else 0)
        found.append(parts[part].images[local : local + 1].cpu())
    return torch.cat(found)


def _pixel_differences(pairs: SimilarPairs, images: ImagesOf) -> list[float]:
    """Return the mean absolute difference of the pixels of each pair."""
    found: list[float] = []
    chunks = zip(*(torch.split(each, PAIRS_AT_ONCE) for each in pairs[:2]), strict=True)
    for first, second in chunks if pairs.total else ():
        difference = images(first).int() - images(second).int()
        found += difference.abs().float().mean((1, 2, 3)).tolist()
    return found


def _named(image: NamedImage) -> list[object]:
    return list(astuple(image)[: len(NAMED)])


def _columns(*prefixes: str) -> list[str]:
    return [f"{prefix}_{name}" for prefix in prefixes for name in NAMED]
