"""Features that no network learns: filters of small patches, found by k-means or random, and HOG."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from einops import rearrange, reduce
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from isopix.core.random import generator
from isopix.core.types import Images, ImageSequence, image_batches
from isopix.probing.features import FeatureSource, View
from isopix.probing.splits import Features
from isopix.storage.provenance import hash_bytes

SIDE = 6  # pixels of a patch
CONTRAST, ZCA = 10.0, 0.1  # added to variances of a patch's levels, and of whitened directions
ITERATIONS, NUM_PATCHES = 50, 400_000  # of k-means
BATCH = 32  # images, whose responses take 5 MB each with 1,600 filters

FilterKind = Literal["kmeans", "random"]
Patches = Float[Tensor, "B L P"]  # at every position, normalized


@dataclass(frozen=True)
class PatchFeatures(FeatureSource):
    """Responses of filters to whitened patches at every position, summed over the four quadrants of an image.

    Of k-means centers, max(0, mean distance - distance) (Coates, Lee and Ng 2011, section 3); of random
    filters, max(0, product).
    """

    kind: FilterKind
    mean: Float[Tensor, " P"]
    whitening: Float[Tensor, "P P"]
    filters: Float[Tensor, "K P"]

    @classmethod
    def fit(
        cls, kind: FilterKind, images: ImageSequence, count: int, *, seed: int, num_patches: int = NUM_PATCHES
    ) -> "PatchFeatures":
        """Fit whitening and `count` filters to random patches of images."""
        draw = generator(seed, "patches")
        chosen = torch.randperm(len(images), generator=draw)[: -(-num_patches // 100)]
        each = -(-num_patches // len(chosen))
        batches = image_batches(images[chosen.sort().values], BATCH)
        found = torch.cat([_drawn(patches(batch), each, draw) for batch in batches])[:num_patches].double()
        mean = found.mean(0)
        scales, directions = torch.linalg.eigh(torch.cov(found.T))
        whitening = directions / (scales + ZCA).sqrt() @ directions.T
        white = (found - mean) @ whitening
        filters = torch.randn(count, white.shape[1], generator=draw, dtype=torch.float64)
        if kind == "kmeans":
            filters = _centers(white, count, seed)
        return cls(kind, mean.float(), whitening.float(), filters.float())

    def read(self, view: View) -> Iterator[Features]:
        return map(self.respond, image_batches(view.images, BATCH))

    def respond(self, images: Images) -> Features:
        """Return the features, [1 B 4K]."""
        white = (patches(images) - self.mean) @ self.whitening
        responses = white @ self.filters.T
        if self.kind == "kmeans":
            squares = white.square().sum(-1, keepdim=True) + self.filters.square().sum(-1)
            distances = (squares - 2 * responses).clamp(min=0).sqrt()
            responses = distances.mean(-1, keepdim=True) - distances
        rows, half = images.shape[2] - SIDE + 1, (images.shape[2] - SIDE + 2) // 2
        grid = rearrange(responses.relu(), "b (h w) k -> b k h w", h=rows)
        halves = [part for row in grid.tensor_split([half], 2) for part in row.tensor_split([half], 3)]
        return torch.cat([reduce(part, "b k h w -> b k", "sum") for part in halves], 1)[None]

    def identity(self) -> str:
        tensors = (self.mean, self.whitening, self.filters)
        return hash_bytes(self.kind.encode(), *(each.numpy().tobytes() for each in tensors))


def fitting_flops(count: int, num_patches: int = NUM_PATCHES) -> int:
    """Return the FLOPs of k-means, at most: those of the products of patches and centers."""
    return ITERATIONS * 2 * num_patches * count * 3 * SIDE**2


def patches(images: Images) -> Patches:
    """Return every patch, less its mean and divided by its standard deviation."""
    found = F.unfold(images.float(), SIDE).mT
    variance, mean = torch.var_mean(found, -1, keepdim=True)
    return (found - mean) / (variance + CONTRAST).sqrt()


def _drawn(every: Patches, count: int, draw: torch.Generator) -> Float[Tensor, "n P"]:
    """Draw `count` patches of each image."""
    some = torch.randint(every.shape[1], (len(every), count, 1), generator=draw)
    return torch.take_along_dim(every, some, 1).flatten(0, 1)


def _centers(white: Float[Tensor, "n P"], count: int, seed: int) -> Float[Tensor, "K P"]:
    from sklearn.cluster import KMeans  # noqa: PLC0415  its import takes a second

    kmeans = KMeans(count, init="random", n_init=1, max_iter=ITERATIONS, random_state=seed)
    return torch.from_numpy(kmeans.fit(white.float().numpy()).cluster_centers_).double()


@dataclass(frozen=True)
class HogFeatures(FeatureSource):
    """Histograms of oriented gradients by scikit-image, of nine orientations in cells of 8 x 8 pixels."""

    def read(self, view: View) -> Iterator[Features]:
        from skimage.feature import hog  # noqa: PLC0415  an optional package

        for images in image_batches(view.images):
            rows = images.permute(0, 2, 3, 1).numpy()
            found = [hog(image, channel_axis=-1, cells_per_block=(2, 2)) for image in rows]
            yield torch.from_numpy(np.stack(found)).float()[None]

    def identity(self) -> str:
        return "HOG"
