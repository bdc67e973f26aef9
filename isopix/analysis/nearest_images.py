"""The training images that are nearest to generated ones: whether a model repeats what it was trained on."""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from isopix.core.types import AnyNumber, Images, image_batches

BATCH_PIXELS = 2**22  # of training images, compared at a time


class NearestImages(NamedTuple):
    """For each image the index of the nearest one of others, and the distance to it: the root mean square
    difference of their levels (0..255), over pixels and channels.
    """

    indices: Int[Tensor, " n"]
    distances: Float[Tensor, " n"]


def nearest_images(images: Images, others: AnyNumber) -> NearestImages:
    """Return the nearest of `others` [M 3 H W], read once in batches, for each of `images` [B 3 H W]; of
    equally near ones the first. Raises ValueError if there are no others.
    """
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
