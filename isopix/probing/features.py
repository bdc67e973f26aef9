"""The features of images, one vector per layer, extracted by one process or several, in memory or a cache."""

import abc
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import PIL
import torch
import torch.distributed as dist
from jaxtyping import Float
from torch import Tensor

from isopix.core.device import Precision, autocast, eval_batch_size, reuse_freed_memory
from isopix.core.progress import track
from isopix.core.random import generator
from isopix.core.types import Groups, ImageSequence, Labels, Mask
from isopix.data.dataset import ImageDataset
from isopix.data.measurement import images_hash
from isopix.data.splits import Split
from isopix.model.attention import rounded_scores
from isopix.model.backbone import FeatureKind
from isopix.model.network import Network, without_start_token
from isopix.model.positions import Pool, default_pool, pool_tokens, require_pool
from isopix.objectives.base import PretrainModel
from isopix.probing.config import ProbeConfig
from isopix.probing.splits import Features, FeatureSplit, FeatureSplits, kept, streamed
from isopix.storage.cache import default_cache
from isopix.storage.provenance import hash_bytes
from isopix.train.parallel import is_parallel

MASK_BATCH_SIZE = 64  # images whose masks are drawn at once; no setting, as the draws depend on it
CACHE_VERSION = 5  # to be raised whenever the same network and images would give other cached features


def iter_features(
    network: Network,
    images: ImageSequence,
    *,
    mask: Mask | None = None,
    features: FeatureKind = "normed",
    pool: Pool | None = None,
    batch_size: int | None = None,
    precision: Precision = "fp32",
) -> Iterator[Features]:
    """Yield the pooled tokens of all layers 0..L, [L+1 B D] in float32 on the CPU, batch by batch.

    By default as iGPT section 2.4: the mean over positions after the next norm, or the class token.
    """
    if not len(images):
        raise ValueError("cannot extract features: there are no images")
    device, grid, prefix = network.device, network.backbone.grid, network.backbone.num_prefix_tokens
    pool, size = pool or default_pool(prefix), batch_size or eval_batch_size(grid.positions, device)
    if device.type == "cpu":
        reuse_freed_memory()
    require_pool(pool, grid)
    for start in range(0, len(images), size):
        part = slice(start, start + size)
        masked = None if mask is None else mask[part].to(device)
        with torch.no_grad(), autocast(device, precision), rounded_scores():
            layers = network.features(images[part].to(device), masked, kind=features)
            found = torch.stack([pool_tokens(tokens, pool, grid, prefix) for tokens in layers])
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


def iter_layer(
    network: Network, splits: Iterable[Split], layer: int, pool: Pool, precision: Precision
) -> Iterator[Float[Tensor, "B _"]]:
    """Yield the pooled features of one layer, batch by batch. Raises ValueError if it does not exist."""
    shorter, images = network.truncated(layer), [each.images for each in splits]
    read = (iter_features(shorter, each, pool=pool, precision=precision) for each in images)
    with track("computing features", sum(map(len, images))) as count:
        done = 0
        for batch in chain.from_iterable(read):
            yield batch[-1].clone()  # without the other layers, which share its memory
            done += batch.shape[1]
            count(done)


def extract_features(network: Network, images: ImageSequence, **options: Any) -> Features:
    """Return the features of `iter_features`, which has the same options, for all images at once."""
    return concat_batches(iter_features(network, images, **options), len(images))


def draw_masks(model: PretrainModel, images: ImageSequence, *, seed: int, purpose: str) -> Mask:
    """Draw a mask of the objective for each image, a function of seed, purpose and the index of the image."""
    masks = []
    for index, start in enumerate(range(0, len(images), MASK_BATCH_SIZE)):
        batch = images[start : start + MASK_BATCH_SIZE].to(model.network.device)
        mask = model.make_batch(batch, generator(seed, purpose, index)).mask
        assert mask is not None, "checked by feature_sources"
        masks.append(mask.cpu())
    return torch.cat(masks)


class View(NamedTuple):
    """Images of a split, under the random masks of the purpose `mask` (None: unmasked)."""

    name: str
    images: ImageSequence
    labels: Labels
    groups: Groups | None
    mask: str | None


@dataclass(frozen=True)
class FeatureSource(abc.ABC):
    """What features are read from; the `layer` and `mask_ensemble` of the config decide what is read."""

    config: ProbeConfig = field(default=ProbeConfig(), kw_only=True)

    @property
    def positions(self) -> int:
        """How many positions stand one after another in the features."""
        return 1

    @abc.abstractmethod
    def read(self, view: View) -> Iterator[Features]:
        """Yield the features of a view batch by batch, in order."""

    @abc.abstractmethod
    def identity(self) -> str:
        """Return a hash of everything that the features depend on except the images."""


@dataclass(frozen=True)
class NetworkFeatures(FeatureSource):
    """Pooled hidden states, of all layers or the config's one; `settings` are part of the cache key."""

    model: PretrainModel
    precision: Precision
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def positions(self) -> int:
        return self.model.network.backbone.grid.positions if self.config.pool == "flatten" else 1

    def read(self, view: View) -> Iterator[Features]:
        config, whole = self.config, self.model.network
        network = whole if config.start_token else without_start_token(whole)
        network = network if config.layer is None else network.truncated(config.layer)
        mask = None
        if view.mask is not None:
            mask = draw_masks(self.model, view.images, seed=config.seed, purpose=view.mask)

        def extract(part: slice) -> Features:
            batch = iter_features(
                network,
                view.images[part],
                mask=None if mask is None else mask[part],
                features=config.features,
                pool=config.pool,
                precision=self.precision,
            )
            return next(batch)[config.layer or 0 :]

        size = eval_batch_size(network.backbone.grid.positions, network.device)
        yield from _by_all_ranks(extract, len(view.images), size)

    def identity(self) -> str:
        config = self.config
        read = [config.features, config.pool, config.start_token, config.layer, self.precision]
        masks = [config.mask_ensemble, config.seed if config.mask_ensemble else None]
        settings = json.dumps([*read, *masks, dict(self.settings)], sort_keys=True)
        state = hashlib.blake2b(digest_size=16)
        for name, tensor in sorted(self.model.network.tensors().items()):
            state.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode())
            state.update(tensor.cpu().contiguous().flatten().view(torch.uint8).numpy().data)
        return hash_bytes(settings.encode(), state.digest())


def _by_all_ranks(extract: Callable[[slice], Features], num_images: int, size: int) -> Iterator[Features]:
    num_ranks, rank = (dist.get_world_size(), dist.get_rank()) if is_parallel() else (1, 0)
    for start in range(0, num_images, size * num_ranks):
        own = start + size * rank
        features = extract(slice(own, own + size) if own < num_images else slice(0, 1))
        if num_ranks > 1:
            padded = features.new_zeros(len(features), size, features.shape[2])
            padded[:, : features.shape[1]] = features
            parts = [torch.empty_like(padded) for _ in range(num_ranks)]
            dist.all_gather(parts, padded)
            features = torch.cat(parts, 1)[:, : num_images - start]
        yield features


def read_splits(
    name: str, source: FeatureSource, data: ImageDataset, *, keep: bool = False, stream: bool = False
) -> FeatureSplits:
    """Read the features of all splits, the test images under each mask; memory-mapped if they `stream`."""
    views, done = _views(data, source.config.mask_ensemble), 0
    with track(f"features of {name}", sum(len(each.images) for each in views)) as progress:

        def batches(view: View) -> Iterator[Features]:
            nonlocal done
            for features in source.read(view):
                done += features.shape[1]
                progress(done)
                yield features

        def whole(view: View) -> Features:
            return concat_batches(batches(view), len(view.images))

        if stream:
            folder = _cache_folder(source, data)
            features = streamed({view.name: partial(batches, view) for view in views}, folder)
        elif keep:
            folder = _cache_folder(source, data, "float32", torch.__version__)
            features = kept({view.name: partial(whole, view) for view in views}, folder)
        else:
            features = {view.name: whole(view) for view in views}
    found = (FeatureSplit(features[view.name], view.labels, view.groups) for view in views)
    train, validation, test, *extra_views = found
    first = source.config.layer or 0
    return FeatureSplits(train, validation, test, tuple(extra_views), first, source.positions)


def _views(data: ImageDataset, mask_ensemble: int) -> list[View]:
    views = []
    for name, split in (("train", data.train), ("validation", data.validation), ("test", data.test)):
        if not len(split):
            raise ValueError(f"the {name} split has no images; a probe needs some in every split")
        assert split.labels is not None
        for number in range(max(1, mask_ensemble) if name == "test" else 1):
            mask = f"probe.mask.{name}.{number}" if mask_ensemble else None
            views.append(View(f"{name}-{number}", split.images, split.labels, split.groups, mask))
    return views


def layer_features(
    model: PretrainModel,
    data: ImageDataset,
    splits: Sequence[Split],
    layer: int,
    pool: Pool,
    precision: Precision,
) -> Float[Tensor, "N D"]:
    """Return the features of `iter_layer` of splits of a dataset; from the cache after the first time."""
    source = NetworkFeatures(model, precision, config=ProbeConfig(layer=layer, pool=pool))
    folder = _cache_folder(source, data, "layer", images_hash(*splits), torch.__version__)
    read = lambda: torch.cat([*iter_layer(model.network, splits, layer, pool, precision)])[None]  # noqa: E731
    return kept({"features": read}, folder)["features"][0]


def _cache_folder(source: FeatureSource, data: ImageDataset, *facts: str) -> Path:
    images = images_hash(data.train, data.validation, data.test)  # the fingerprint has their preprocessing
    parts = (str(CACHE_VERSION), source.identity(), data.fingerprint, images, PIL.__version__, *facts)
    return default_cache() / "features" / hash_bytes(*(part.encode() for part in parts))
