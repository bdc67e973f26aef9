"""The features of images: one vector per layer of a network, or the raw pixels."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor

from isopix.core.device import Precision, autocast
from isopix.core.images import ImageSequence
from isopix.core.memory import eval_batch_size, reuse_freed_memory
from isopix.core.random import generator
from isopix.core.types import Images, Mask
from isopix.model.attention import rounded_scores
from isopix.model.backbone import FeatureKind
from isopix.model.network import Network
from isopix.model.pool import AllTokens, Pool, Pooled, default_pool, pool_tokens, require_pool
from isopix.objectives.base import PretrainModel
from isopix.probing.feature_splits import Features

MASK_BATCH_SIZE = 64  # images whose masks are drawn at once; no setting, as the draws depend on it


@dataclass(frozen=True)
class BatchSlice:
    """Each `step`-th batch from the one at `first` on, all of `size` images (None: a fast size)."""

    size: int | None = None
    first: int = 0
    step: int = 1

    def slices(self, num_images: int, fast_size: int) -> Iterator[slice]:
        """Return the images of each batch; the last one may have fewer."""
        size = self.size or fast_size
        for start in range(self.first * size, num_images, self.step * size):
            yield slice(start, start + size)


ALL = BatchSlice()


def iter_features(
    network: Network,
    images: ImageSequence,
    *,
    mask: Mask | None = None,
    features: FeatureKind = "normed",
    pool: Pool | Sequence[Pool] | None = None,
    batches: BatchSlice = ALL,
    precision: Precision = "fp32",
) -> Iterator[Features]:
    """Yield the pooled tokens of all layers 0..L, [L+1 B D] in float32 on the CPU, batch by batch.

    By default those of iGPT section 2.4: the mean over positions of the activations after the next norm; of a
    network with a class token, the activations of that token. Several pools are concatenated. The forward
    passes run on the network's device. Raises ValueError if there are no images, and for a pool of more cells
    than the grid.
    """
    if not len(images):
        raise ValueError("cannot extract features: there are no images")
    device, grid, prefix = network.device, network.backbone.grid, network.backbone.num_prefix_tokens
    given, fast_size = pool or default_pool(prefix), eval_batch_size(grid.positions, device)
    pools = [given] if isinstance(given, str) else list(given)
    if device.type == "cpu":
        reuse_freed_memory()
    for each in pools:
        require_pool(each, grid)

    def pooled(tokens: AllTokens) -> Pooled:
        return torch.cat([pool_tokens(tokens, each, grid, prefix) for each in pools], 1)

    for part in batches.slices(len(images), fast_size):
        batch = images[part].to(device)
        masked = None if mask is None else mask[part].to(device)
        with torch.no_grad(), autocast(device, precision), rounded_scores():
            layers = network.features(batch, masked, kind=features)
            found = torch.stack([pooled(tokens) for tokens in layers])
        yield found.cpu()


def concat_batches(batches: Iterable[Features], num_images: int) -> Features:
    """Concatenate batches along images, in memory that is allocated once."""
    features, done = torch.empty(0), 0
    for batch in batches:
        if not done:
            features = torch.empty(len(batch), num_images, batch.shape[2])
        features[:, done : done + batch.shape[1]] = batch
        done += batch.shape[1]
    return features


def extract_features(
    network: Network,
    images: ImageSequence,
    *,
    features: FeatureKind = "normed",
    pool: Pool | Sequence[Pool] | None = None,
    batch_size: int | None = None,
    precision: Precision = "fp32",
) -> Features:
    """Return the features of `iter_features` for all images at once. Raises what it raises."""
    found = iter_features(
        network, images, features=features, pool=pool, batches=BatchSlice(batch_size), precision=precision
    )
    return concat_batches(found, len(images))


def draw_masks(model: PretrainModel, images: ImageSequence, *, seed: int, purpose: str) -> Mask:
    """Draw an independent mask for each image, as the objective does in training: a function of seed, purpose
    and the index of the image. Raises ValueError for an objective that masks nothing.
    """
    masks = []
    for index, start in enumerate(range(0, len(images), MASK_BATCH_SIZE)):
        batch = images[start : start + MASK_BATCH_SIZE].to(model.network.device)
        mask = model.make_batch(batch, generator(seed, purpose, index)).mask
        if mask is None:
            raise ValueError("the objective of this network masks nothing; probe it without masks")
        masks.append(mask.cpu())
    return torch.cat(masks)


def raw_pixels(images: Images) -> Float[Tensor, "1 B D"]:
    """Return all pixels of each image, in [-1, 1], as one layer of features: a baseline without a network."""
    return rearrange(images, "b c h w -> 1 b (c h w)").float() / 127.5 - 1
