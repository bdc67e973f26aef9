"""Nearest neighbors of images by features, and groups of duplicates among them by pixels.

Features are standardized: without, those of a network share a large mean, and the cosine similarity of all
images is near 1.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from isopix.core.progress import track
from isopix.core.types import AnyNumber, Images, ImageSequence, image_batches
from isopix.data.copies import Groups, linked_groups

BLOCK_SIZE = 2048  # images that are compared with as many others at once: 16 MiB of similarities
FAISS_IMAGES = 100_000  # from which on faiss is used, if it is installed
BATCH_PIXELS = 2**22  # of training images, compared at a time
ROUNDING = 1e-5  # of features of the same image, in batches of other sizes
PAIRS_AT_ONCE = 1_000  # whose pixels are in memory
MAX_DIFFERENCE, MIN_DIFFERENCE = 0.2, 1e-3  # of pixels: recompressed copies have up to 0.2, equal ones 0
DEVIATIONS = 6  # below the mean of the logarithm of differences of other images
GAUSSIAN_MAD = 1.4826  # standard deviations of a Gaussian in its median absolute deviation

ImageFeatures = Float[Tensor, "N D"]


class Neighbors(NamedTuple):
    """The nearest neighbors of each image, in order, with their cosine similarities."""

    indices: Int[Tensor, "M k"]
    similarities: Float[Tensor, "M k"]

    @property
    def distances(self) -> Float[Tensor, " M"]:
        """Mean cosine distance, 1 - similarity, of each image to its nearest neighbors: high for outliers."""
        return 1 - self.similarities.mean(1)


def standardized(features: ImageFeatures) -> ImageFeatures:
    """Return features with mean 0 and variance 1, scaled to unit length; all equal if all are constant."""
    deviation, mean = torch.std_mean(features, dim=0, correction=0)
    if deviation.max() <= ROUNDING * features.abs().max():
        return F.normalize(torch.ones_like(features))
    return F.normalize((features - mean) / deviation.clamp(min=1e-6 * deviation.max().clamp(min=1e-30)))


def nearest_neighbors(
    features: ImageFeatures,
    *,
    num_neighbors: int,
    device: torch.device,
    queries: Float[Tensor, "M D"] | None = None,
) -> Neighbors:
    """Return the nearest others of each image by cosine similarity, or the nearest images of `queries`.

    Blocks are computed on the device, so that memory grows with the number of images alone. Raises
    RuntimeError for features that are not finite.
    """
    count, others = len(features), len(features) - (queries is None)
    if not 1 <= num_neighbors <= others:
        raise ValueError(f"num_neighbors is {num_neighbors}; allowed for {count} images: 1 to {others}")
    whole = features if queries is None else torch.cat([features, queries])
    if bad := int((~whole.isfinite().all(1)).sum()):
        raise RuntimeError(f"the features of {bad:,} of {len(whole):,} images are not finite")
    whole = standardized(whole.float())
    if device.type == "cpu" and count >= FAISS_IMAGES and find_spec("faiss"):
        return _by_faiss(whole[:count], None if queries is None else whole[count:], num_neighbors)
    points = torch.split(whole[:count], BLOCK_SIZE)
    asked = points if queries is None else torch.split(whole[count:], BLOCK_SIZE)
    found = []
    with track("comparing images", len(asked)) as done:
        for row, block in enumerate(asked):
            shown = block.to(device)
            values = shown.new_zeros(len(block), 0)
            best = values, values.long()
            for column, images in enumerate(points):
                similarities = (shown @ images.to(device).T).clamp(-1, 1)
                if queries is None and row == column:
                    similarities.fill_diagonal_(-torch.inf)
                best = _merged(best, similarities, column * BLOCK_SIZE, num_neighbors)
            found.append([each.cpu() for each in best])
            done(row + 1)
    values, indices = (torch.cat(part) for part in zip(*found, strict=True))
    return Neighbors(indices, values)


def _merged(
    best: tuple[Tensor, Tensor], similarities: Float[Tensor, "rows columns"], start: int, count: int
) -> tuple[Tensor, Tensor]:
    """Return the `count` highest similarities of each row, the lower index first where they are equal."""
    kept = min(count, similarities.shape[1])
    order = similarities.topk(kept).indices.sort(1).values
    last = similarities.gather(1, order).amin(1, keepdim=True)
    tied = (similarities >= last).sum(1) > kept  # of these, topk returns any; sorting all takes much longer
    order[tied] = similarities[tied].argsort(dim=1, stable=True, descending=True)[:, :kept]
    values = torch.cat([best[0], similarities.gather(1, order)], 1)
    which = torch.cat([best[1], start + order], 1)
    top = values.sort(dim=1, stable=True, descending=True)
    return top.values[:, :count], which.gather(1, top.indices[:, :count])


def _by_faiss(points: ImageFeatures, queries: Float[Tensor, "M D"] | None, num_neighbors: int) -> Neighbors:
    """Search by faiss, which is faster; which of equal images are left out is faiss's choice."""
    index, count = import_module("faiss").IndexFlatIP(points.shape[1]), num_neighbors + (queries is None)
    index.add(points.numpy())
    blocks, found = torch.split(points if queries is None else queries, BLOCK_SIZE), []
    with track("comparing images", len(blocks)) as done:
        for row, block in enumerate(blocks):
            found.append(index.search(block.numpy(), count))
            done(row + 1)
    values, indices = (torch.from_numpy(np.concatenate(part)) for part in zip(*found, strict=True))
    values = values.clamp(-1, 1)
    if queries is None:
        values[indices == torch.arange(len(points))[:, None]] = -torch.inf
    indices, order = indices.sort(1)
    values, order = values.gather(1, order).sort(dim=1, stable=True, descending=True)
    return Neighbors(indices.gather(1, order)[:, :num_neighbors], values[:, :num_neighbors])


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


def pixel_differences(
    images: ImageSequence, first: Int[Tensor, " pairs"], second: Int[Tensor, " pairs"]
) -> Float[Tensor, " pairs"]:
    """Return the root mean square difference of the pixels of pairs of images, as a multiple of the standard
    deviation of the flatter one: two gray walls are not copies of each other.
    """
    found = []
    for pairs in zip(torch.split(first, PAIRS_AT_ONCE), torch.split(second, PAIRS_AT_ONCE), strict=True):
        one, other = (images[each].cpu().float().flatten(1) for each in pairs)
        flatter = torch.minimum(one.std(1), other.std(1)).clamp(min=1)
        found.append((one - other).square().mean(1).sqrt() / flatter)
    return torch.cat(found)


def difference_threshold(differences: Float[Tensor, "N k"]) -> float:
    """Return the difference up to which images are duplicates, from those of each to its k nearest.

    The k-th is hardly ever a copy: the threshold is `DEVIATIONS` standard deviations below the mean of its
    logarithm, by the median and the median absolute deviation, and at most `MAX_DIFFERENCE`.
    """
    logs = differences[:, -1].clamp(min=MIN_DIFFERENCE).log()
    deviation = GAUSSIAN_MAD * (logs - logs.median()).abs().median()
    return min(MAX_DIFFERENCE, float((logs.median() - DEVIATIONS * deviation).exp()))


def duplicate_groups(
    found: Neighbors, images: ImageSequence, threshold: float | None
) -> tuple[Groups, float]:
    """Return groups of images, each linked to a near one by a difference of pixels of up to the threshold,
    which is returned too: that of the distribution for None.
    """
    first = torch.arange(len(found.indices)).repeat_interleave(found.indices.shape[1])
    second = found.indices.flatten()
    differences = pixel_differences(images, first, second)
    if threshold is None:
        threshold = difference_threshold(differences.view(found.indices.shape))
    links = torch.stack([first, second], 1)[differences <= threshold]
    return linked_groups(links.numpy(), len(images)), threshold
