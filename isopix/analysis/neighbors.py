"""Nearest neighbors of images: near-duplicates and outliers by features, and their files; by pixels, too.

Features are standardized: without, those of a network share a large mean, and the cosine similarity of all
images is near 1.
"""

from collections.abc import Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from isopix.analysis.results import DuplicatePair, NamedImage, NeighborsResult, Outlier
from isopix.core.choices import Pool, Precision, SplitName
from isopix.core.progress import track
from isopix.core.types import AnyNumber, Images, image_batches
from isopix.data.splits import Split
from isopix.model.network import Network
from isopix.plots.images import png_bytes
from isopix.plots.sheets import plot_pairs
from isopix.probing.features import iter_layer
from isopix.storage.atomic import replace_file, write_csv

BLOCK_SIZE = 2048  # images that are compared with as many others at once: 16 MiB of similarities
MAX_PAIRS = 100_000  # that are returned
BATCH_PIXELS = 2**22  # of training images, compared at a time
ROUNDING = 1e-5  # of features of the same image, in batches of other sizes
PAIRS_AT_ONCE = 1_000  # whose pixels are in memory
CSV_COLUMNS = {
    "duplicates": "similarity first.split first.index first.name second.split second.index second.name "
    "pixel_difference",
    "outliers": "distance image.split image.index image.name nearest.split nearest.index nearest.name",
}

ImageFeatures = Float[Tensor, "N D"]
Splits = Mapping[SplitName, Split]


class SimilarPairs(NamedTuple):
    """Pairs by decreasing cosine similarity; `total` counts those that were left out, too."""

    first: Int[Tensor, " pairs"]
    second: Int[Tensor, " pairs"]
    similarity: Float[Tensor, " pairs"]
    total: int


class Neighbors(NamedTuple):
    """The nearest neighbors of each image, in order, and the similar pairs."""

    indices: Int[Tensor, "N k"]
    similarities: Float[Tensor, "N k"]
    pairs: SimilarPairs

    @property
    def distances(self) -> Float[Tensor, " N"]:
        """Mean cosine distance, 1 - similarity, of each image to its nearest neighbors: high for outliers."""
        return 1 - self.similarities.mean(1)


def standardized(features: ImageFeatures) -> ImageFeatures:
    """Return features with mean 0 and variance 1, scaled to unit length; all equal if all are constant."""
    deviation, mean = torch.std_mean(features, dim=0, correction=0)
    if deviation.max() <= ROUNDING * features.abs().max():
        return F.normalize(torch.ones_like(features))
    return F.normalize((features - mean) / deviation.clamp(min=1e-6 * deviation.max().clamp(min=1e-30)))


def nearest_neighbors(
    features: ImageFeatures, *, num_neighbors: int, threshold: float, device: torch.device
) -> Neighbors:
    """Return neighbors by cosine similarity, and the MAX_PAIRS most similar pairs of at least `threshold`.

    Blocks are computed on the device, so that memory grows with the number of images alone. Raises
    RuntimeError for features that are not finite.
    """
    count = len(features)
    if not 1 <= num_neighbors < count:
        raise ValueError(f"num_neighbors is {num_neighbors}; allowed for {count} images: 1 to {count - 1}")
    if bad := int((~features.isfinite().all(1)).sum()):
        raise RuntimeError(f"the features of {bad:,} of {count:,} images are not finite")
    points = torch.split(standardized(features.float()), BLOCK_SIZE)
    found, none = [], torch.zeros(0, dtype=torch.int64)
    pairs = SimilarPairs(none, none, torch.zeros(0), 0)
    with track("comparing images", count) as done:
        for row, queries in enumerate(points):
            shown = queries.to(device)
            values = shown.new_zeros(len(queries), 0)
            best = values, values.long()
            for column, others in enumerate(points):
                similarities = (shown @ others.to(device).T).clamp(-1, 1)
                if row == column:
                    similarities.fill_diagonal_(-torch.inf)
                start = (row * BLOCK_SIZE, column * BLOCK_SIZE)
                if column >= row:
                    pairs = _with_pairs(pairs, similarities, threshold, start)
                best = _merged(best, similarities, start[1], num_neighbors)
            found.append([each.cpu() for each in best])
            done(min(count, (row + 1) * BLOCK_SIZE))
    values, indices = (torch.cat(part) for part in zip(*found, strict=True))
    return Neighbors(indices, values, pairs)


def _merged(
    best: tuple[Tensor, Tensor], similarities: Float[Tensor, "rows columns"], start: int, count: int
) -> tuple[Tensor, Tensor]:
    """Return the `count` highest similarities of each row, the lower index first where they are equal."""
    indices = torch.arange(start, start + similarities.shape[1], device=similarities.device)
    values = torch.cat([best[0], similarities], 1)
    which = torch.cat([best[1], indices.expand(similarities.shape)], 1)
    order = values.sort(dim=1, stable=True, descending=True)
    return order.values[:, :count], which.gather(1, order.indices[:, :count])


def _with_pairs(
    pairs: SimilarPairs, similarities: Float[Tensor, "rows columns"], threshold: float, start: tuple[int, int]
) -> SimilarPairs:
    above = similarities >= threshold
    if start[0] == start[1]:
        above = above.triu(1)
    row, column = above.nonzero(as_tuple=True)
    values = torch.cat([pairs.similarity, similarities[row, column].cpu()])
    first = torch.cat([pairs.first, row.cpu() + start[0]])
    second = torch.cat([pairs.second, column.cpu() + start[1]])
    order = values.argsort(descending=True, stable=True)[:MAX_PAIRS]
    return SimilarPairs(first[order], second[order], values[order], pairs.total + len(row))


class NearestImages(NamedTuple):
    """For each image the nearest of others, and the root mean square difference of levels (0..255)."""

    indices: Int[Tensor, " n"]
    distances: Float[Tensor, " n"]


def nearest_images(images: Images, others: AnyNumber) -> NearestImages:
    """Return the nearest of `others` [M 3 H W], read once, for each image; of equals the first."""
    if len(others) == 0:
        raise ValueError("there are no images to compare with")
    queries = images.flatten(1).double()
    lengths = queries.square().sum(1)
    nearest = torch.full((len(images),), torch.inf, dtype=torch.float64)
    indices = torch.zeros(len(images), dtype=torch.int64)
    start = 0
    for batch in image_batches(others, max(1, BATCH_PIXELS // others.shape[2:].numel())):
        found = batch.cpu().flatten(1).double()
        # Sums of whole numbers below 2^53: exact, in any order.
        squares = torch.addmm(found.square().sum(1), queries, found.T, alpha=-2)
        smallest, position = squares.min(1)
        closer = smallest + lengths < nearest
        nearest = torch.where(closer, smallest + lengths, nearest)
        indices = torch.where(closer, position + start, indices)
        start += len(batch)
    return NearestImages(indices, (nearest / queries.shape[1]).sqrt().float())


def pooled_features(
    network: Network, splits: Splits, layer: int, pool: Pool, precision: Precision
) -> ImageFeatures:
    """Return the pooled features of one layer. Raises ValueError for a layer that does not exist."""
    return torch.cat([*iter_layer(network, splits.values(), layer, pool, precision)])


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
    for name, columns in CSV_COLUMNS.items():
        rows = map(attrgetter(*columns.split()), getattr(result, name))
        write_csv(path / f"{name}.csv", columns.replace(".", "_").split(), rows)
    title = (
        f"{result.num_duplicates:,} pairs with a similarity of features of {result.threshold:g} or more, the "
        "most similar first; in parentheses the mean difference of their pixels, 0 to 255"
    )
    pairs = [
        (f"{each.similarity:.4f} (pixels {each.pixel_difference:.1f})", each.first, each.second)
        for each in result.duplicates[:count]
    ]
    _save_pairs(path / "duplicates.png", title, pairs, splits)
    title = (
        "Outliers by features, each beside its nearest image, with its mean distance to the nearest "
        f"{result.num_neighbors}"
    )
    outliers = [(f"{each.distance:.4f}", each.image, each.nearest) for each in result.outliers[:count]]
    _save_pairs(path / "outliers.png", title, outliers, splits)
    return result.saved(path)


def _save_pairs(
    path: Path, title: str, pairs: Sequence[tuple[str, NamedImage, NamedImage]], splits: Splits
) -> None:
    if pairs:
        labels = [(value, first.short_name, second.short_name) for value, first, second in pairs]
        images = _pixels(splits, [(first, second) for _, first, second in pairs])
        replace_file(path, png_bytes(plot_pairs(title, *images, labels)))


def _pixels(splits: Splits, pairs: Sequence[tuple[NamedImage, NamedImage]]) -> tuple[Images, Images]:
    first, second = (
        torch.cat([splits[each.split].images[each.index : each.index + 1].cpu() for each in images])
        for images in zip(*pairs, strict=True)
    )
    return first, second
