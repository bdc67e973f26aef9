"""Nearest neighbors of images: near-duplicates and outliers by features, repeated training images by pixels.

Features are standardized: without, those of a network share a large mean, and the cosine similarity of all
images is near 1.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from isopix.core.progress import track
from isopix.core.types import AnyNumber, Images, image_batches

BLOCK_SIZE = 2048  # images that are compared with as many others at once: 16 MiB of similarities
MAX_PAIRS = 100_000  # that are returned
BATCH_PIXELS = 2**22  # of training images, compared at a time
ROUNDING = 1e-5  # of features of the same image, in batches of other sizes

ImageFeatures = Float[Tensor, "N D"]


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
