"""Feature extraction for a whole dataset: the splits of a probe, from a network or from raw pixels."""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from isopix.core.device import Precision
from isopix.core.images import ImageSequence
from isopix.core.progress import track
from isopix.core.random import generator
from isopix.core.types import Groups, Labels, Mask
from isopix.data.dataset import ImageDataset
from isopix.data.measurement import content_hash
from isopix.model.network import Network, without_start_token
from isopix.objectives.base import PretrainModel
from isopix.probing.baselines import raw_pixels
from isopix.probing.config import ProbeConfig
from isopix.probing.features import ALL, BatchSlice, concat_batches, draw_masks, iter_features
from isopix.probing.splits import Features, FeatureSplit, FeatureSplits, cached, kept
from isopix.storage.cache import default_cache
from isopix.storage.hashing import hash_bytes

CACHE_VERSION = 4  # to be raised whenever the same network and images would give other cached features
PIXEL_BATCH_SIZE = 1024  # images whose pixels are read at once
PCA_IMAGES = 10_000  # to which principal components are fitted
PCA_ITERATIONS = 4  # of the randomized SVD (Halko et al. 2011, algorithm 4.4)
PCA_OVERSAMPLING = 32  # directions beyond those that are kept, which make the last of these accurate
PCA_TOLERANCE = 1e-5  # components of a smaller scale, relative to the first, are rounding errors

Note = Callable[[str], None]


class View(NamedTuple):
    """Images of a split, under the random masks of the purpose `mask` (None: unmasked)."""

    name: str
    images: ImageSequence
    labels: Labels
    groups: Groups | None
    mask: str | None


def views_of(data: ImageDataset, mask_ensemble: int) -> list[View]:
    """Return train, validation and test, the test images once for each mask of the ensemble.

    The data must have labels.
    """
    views = []
    for name, split in (("train", data.train), ("validation", data.validation), ("test", data.test)):
        assert split.labels is not None
        for number in range(max(1, mask_ensemble) if name == "test" else 1):
            mask = f"probe.mask.{name}.{number}" if mask_ensemble else None
            views.append(View(f"{name}-{number}", split.images, split.labels, split.groups, mask))
    return views


@runtime_checkable
class FeatureSource(Protocol):
    """What features are read from; `first_layer` is the number of the first layer that is read."""

    @property
    def first_layer(self) -> int: ...

    @property
    def mask_ensemble(self) -> int: ...

    def read(self, view: View) -> Iterator[Features]:
        """Yield the features of a view batch by batch, in order."""
        ...

    def identity(self) -> str:
        """Return a hash of everything that the features depend on except the images."""
        ...


@dataclass(frozen=True)
class PixelFeatures:
    """Raw pixels as features: a baseline."""

    first_layer = 0
    mask_ensemble = 0

    def read(self, view: View) -> Iterator[Features]:
        for start in range(0, len(view.images), PIXEL_BATCH_SIZE):
            yield raw_pixels(view.images[start : start + PIXEL_BATCH_SIZE])

    def identity(self) -> str:
        return "raw pixels"


@dataclass(frozen=True)
class PixelComponents:
    """The first principal components of raw pixels: a baseline with as many features as a network.

    A projection [P D] of the pixels' differences from their mean [P].
    """

    mean: Float[Tensor, " P"]
    components: Float[Tensor, "P D"]
    first_layer = 0
    mask_ensemble = 0

    @classmethod
    def fit(cls, images: ImageSequence, count: int) -> "PixelComponents | None":
        """Fit `count` components to at most PCA_IMAGES images, spread evenly; None if there are not fewer
        than pixel values.

        There are fewer than `count` where the images vary in fewer directions, as gray ones do.
        """
        if count >= images.shape[1:].numel():
            return None
        spread = torch.linspace(0, len(images) - 1, min(len(images), PCA_IMAGES)).long()
        pixels = raw_pixels(images[spread])[0]
        center = pixels.mean(0)
        scales, directions = _leading_directions(pixels - center, count)
        return cls(center, directions[:, scales >= PCA_TOLERANCE * scales[0]])

    def read(self, view: View) -> Iterator[Features]:
        return map(self.project, PixelFeatures().read(view))

    def project(self, pixels: Float[Tensor, "1 B P"]) -> Float[Tensor, "1 B D"]:
        """Return the components of all pixels."""
        return (pixels - self.mean) @ self.components

    def identity(self) -> str:
        return hash_bytes(self.mean.numpy().tobytes(), self.components.numpy().tobytes())


@dataclass(frozen=True)
class NetworkFeatures:
    """Pooled hidden states of a network, of all layers or of the config's one.

    `settings` are those of the network that its features depend on; they are part of the cache key.
    """

    model: PretrainModel
    config: ProbeConfig
    precision: Precision
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def first_layer(self) -> int:
        """The number of the first layer that is read."""
        return self.config.layer or 0

    @property
    def mask_ensemble(self) -> int:
        return self.config.mask_ensemble

    def read(self, view: View, batches: BatchSlice = ALL) -> Iterator[Features]:
        for features in iter_features(
            self._cut(),
            view.images,
            mask=self._masks(view),
            features=self.config.features,
            pool=self.config.pool,
            precision=self.precision,
            batches=batches,
        ):
            yield features[self.first_layer :]

    def identity(self) -> str:
        config = self.config
        read = [config.features, config.pool, config.start_token, config.layer, self.precision]
        masks = [config.mask_ensemble, config.seed if config.mask_ensemble else None]
        settings = json.dumps([*read, *masks, dict(self.settings)], sort_keys=True)
        return hash_bytes(settings.encode(), _hash_weights(self.model.network))

    def _cut(self) -> Network:
        whole = self.model.network
        network = whole if self.config.start_token else without_start_token(whole)
        return network if self.config.layer is None else network.truncated(self.config.layer)

    def _masks(self, view: View) -> Mask | None:
        if view.mask is None:
            return None
        return draw_masks(self.model, view.images, seed=self.config.seed, purpose=view.mask)


def _leading_directions(
    rows: Float[Tensor, "B P"], count: int
) -> tuple[Float[Tensor, " D"], Float[Tensor, "P D"]]:
    """Return the first right singular vectors of a matrix and their singular values, by randomized subspace
    iteration.
    """
    size = min(count + PCA_OVERSAMPLING, *rows.shape)
    random = generator(0, "pixels.components")
    basis = torch.linalg.qr(rows @ torch.randn(rows.shape[1], size, generator=random)).Q
    for _ in range(PCA_ITERATIONS):
        basis = torch.linalg.qr(rows @ torch.linalg.qr(rows.mT @ basis).Q).Q
    _, scales, directions = torch.linalg.svd(basis.mT @ rows, full_matrices=False)
    return scales[:count], directions[:count].mT.contiguous()


def read_splits(source: FeatureSource, data: ImageDataset, *, keep: bool = False) -> FeatureSplits:
    """Read all features into memory; with `keep` from, and into, $ISOPIX_CACHE/features if they are few."""
    views = views_of(data, source.mask_ensemble)
    with _counted(source, views) as read:

        def read_view(view: View) -> Features:
            return concat_batches(read(view), len(view.images))

        if keep:
            folder = _cache_folder(source, data, "float32", torch.__version__)
            features = kept({view.name: partial(read_view, view) for view in views}, folder)
        else:
            features = {view.name: read_view(view) for view in views}
    train, validation, test, *extra_views = (
        FeatureSplit(features[view.name], view.labels, view.groups) for view in views
    )
    return FeatureSplits(train, validation, test, tuple(extra_views), first_layer=source.first_layer)


def read_cached_splits(source: FeatureSource, data: ImageDataset, note: Note) -> FeatureSplits:
    """Read all features in 16 bits from the cache, computing them if they are not there.

    They lie in $ISOPIX_CACHE/features, in a folder named by a hash of the weights, the images and the
    settings; `note` receives which. Raises what `cached` raises.
    """
    views, folder = views_of(data, source.mask_ensemble), _cache_folder(source, data)
    with _counted(source, views) as read:
        stored = cached({view.name: partial(read, view) for view in views}, folder)
    size = sum(each.nbytes for each in stored.features.values()) / 2**20
    note(f"features {'read from' if stored.found else 'written to'} {folder} ({size:,.1f} MiB)")
    train, validation, test, *extra_views = (
        FeatureSplit(stored.features[view.name], view.labels, view.groups) for view in views
    )
    return FeatureSplits(train, validation, test, tuple(extra_views), stored.scale, source.first_layer)


def _cache_folder(source: FeatureSource, data: ImageDataset, *facts: str) -> Path:
    parts = (str(CACHE_VERSION), source.identity(), content_hash(data), *facts)
    return default_cache() / "features" / hash_bytes(*(part.encode() for part in parts))


@contextmanager
def _counted(source: FeatureSource, views: Sequence[View]) -> Iterator[Callable[[View], Iterator[Features]]]:
    """Yield a function that reads one view after another, and show how many images are read."""
    done = 0
    with track("computing features", sum(len(view.images) for view in views)) as count:

        def read(view: View) -> Iterator[Features]:
            nonlocal done
            for features in source.read(view):
                done += features.shape[1]
                count(done)
                yield features

        yield read


def _hash_weights(network: Network) -> bytes:
    state = hashlib.blake2b(digest_size=16)
    for name, tensor in sorted(network.tensors().items()):
        state.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode())
        state.update(tensor.cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return state.digest()
