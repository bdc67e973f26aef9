"""Features of the train, validation and test images: their standardization, and their cache on disk."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain
from logging import getLogger
from pathlib import Path
from typing import Any

import numpy as np
import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor

from isopix.core import ranks
from isopix.core.types import Groups, Labels
from isopix.data.splits import Indices
from isopix.storage.arrays import open_memmap, write_npy
from isopix.storage.cache import read_manifest, write_artifact
from isopix.train.parallel import agree, barrier

CONSTANT = 1e-6  # a feature whose standard deviation is below this fraction of its mean is rounding error
CHUNK = 2**24  # numbers that are converted to float64 at once
MAX_KEPT = 2**28  # bytes of features in float32 for which a cache is worth its disk space

logger = getLogger("isopix")

Features = Float[Tensor, "F B D"]
PerFeature = Float[Tensor, "F 1 D"]


@dataclass(frozen=True)
class FeatureSplit:
    """The features of F layers of some images, and the labels and groups of the images (`Split`)."""

    features: Features
    labels: Labels
    groups: Groups | None = None

    def __len__(self) -> int:
        return len(self.labels)

    def map(self, function: Callable[[Features], Features]) -> "FeatureSplit":
        return replace(self, features=function(self.features))

    def select(self, images: slice | Indices) -> "FeatureSplit":
        groups = None if self.groups is None else self.groups[images]
        return FeatureSplit(self.features[:, images], self.labels[images], groups)

    def to(self, device: torch.device) -> "FeatureSplit":
        return replace(self, features=self.features.to(device), labels=self.labels.to(device))

    def chunks(self) -> Iterator["FeatureSplit"]:
        return map(self.select, _parts(self.features))


@dataclass(frozen=True)
class FeatureSplits:
    """The features of the same layers of training, validation and test images.

    `extra_views` are the test images under further masks, `first_layer` is the number of the first layer in
    the network. Features of more than one of the `positions` are [F B (positions D)].
    """

    train: FeatureSplit
    validation: FeatureSplit
    test: FeatureSplit
    extra_views: tuple[FeatureSplit, ...] = ()
    first_layer: int = 0
    positions: int = 1

    def map(self, function: Callable[[FeatureSplit], FeatureSplit]) -> "FeatureSplits":
        return replace(
            self,
            train=function(self.train),
            validation=function(self.validation),
            test=function(self.test),
            extra_views=tuple(map(function, self.extra_views)),
        )

    def select_layers(self, start: int, stop: int) -> "FeatureSplits":
        selected = self.map(lambda split: split.map(lambda features: features[start:stop]))
        return replace(selected, first_layer=self.first_layer + start)

    def concat_layers(self) -> "FeatureSplits":
        """Concatenate the features of all layers into one layer (iGPT section 4.4)."""

        def joined(x: Tensor) -> Tensor:
            return rearrange(x, "f b (n d) -> 1 b (n f d)", n=self.positions)

        return self.map(lambda split: split.map(joined))

    def with_validation_in_train(self) -> "FeatureSplits":
        features = torch.cat([self.train.features, self.validation.features], 1)
        labels = torch.cat([self.train.labels, self.validation.labels])
        return replace(self, train=FeatureSplit(features, labels))

    @property
    def test_views(self) -> tuple[FeatureSplit, ...]:
        return (self.test, *self.extra_views)


@dataclass(frozen=True)
class Standardizer:
    """Scale each feature to mean 0 and standard deviation 1 over some images, constant ones to 0."""

    center: PerFeature
    inverse_scale: PerFeature

    def __call__(self, features: Features) -> Features:
        return ((features - self.center) * self.inverse_scale).float()

    def to(self, device: torch.device) -> "Standardizer":
        return Standardizer(self.center.to(device), self.inverse_scale.to(device))

    @staticmethod
    def fit(features: Features) -> "Standardizer":
        """Measure the images, read in chunks; constant is what varies by rounding errors only."""
        count, mean, variance = 0, torch.zeros(()), torch.zeros(())
        for part in _parts(features):
            exact = features[:, part].double()
            center, spread = exact.mean(1, keepdim=True), exact.var(1, keepdim=True, correction=0)
            weight, shift = exact.shape[1] / (count + exact.shape[1]), center - mean
            variance = (1 - weight) * variance + weight * spread + weight * (1 - weight) * shift.square()
            mean, count = mean + weight * shift, count + exact.shape[1]
        deviation = variance.sqrt()
        return Standardizer(mean, torch.where(deviation > CONSTANT * mean.abs(), 1 / deviation, 0.0))


def _parts(features: Features) -> Iterator[slice]:
    layers, images, width = features.shape
    size = max(1, CHUNK // (layers * width))
    return (slice(start, start + size) for start in range(0, images, size))


def streamed(readers: Mapping[str, Callable[[], Iterator[Features]]], folder: Path) -> dict[str, Features]:
    """Return memory-mapped features by name, from `folder` or computed and kept there.

    Readers yield batches of images; of several ranks the first writes, or raises RuntimeError.
    """
    found = _is_complete(folder)
    if not found and ranks.local_rank() > 0:
        for _ in chain.from_iterable(read() for read in readers.values()):
            pass  # the ranks compute together
    elif not found:
        try:
            write_artifact(folder, lambda scratch: _write(scratch, readers))
        except OSError as error:
            raise RuntimeError(
                f"features cannot be written to {folder.parent} ({error.strerror}); "
                "set ISOPIX_CACHE to another folder"
            ) from error
    barrier()
    features = {name: open_memmap(folder / f"{name}.npy") for name in readers}
    size = sum(each.nbytes for each in features.values()) / 2**20
    logger.info("features %s %s (%s MiB)", "read from" if found else "written to", folder, f"{size:,.1f}")
    return {name: rearrange(each, "b f d -> f b d") for name, each in features.items()}


def kept(readers: Mapping[str, Callable[[], Features]], folder: Path) -> dict[str, Features]:
    """Return float32 features from `folder` if intact, else computed and, up to MAX_KEPT bytes, kept."""
    if _is_complete(folder):
        return {name: torch.from_numpy(np.load(folder / f"{name}.npy")) for name in readers}
    features = {name: read() for name, read in readers.items()}

    def write(scratch: Path) -> dict[str, Any]:
        for name, each in features.items():
            np.save(scratch / f"{name}.npy", each.numpy())
        return {}

    if sum(each.nbytes for each in features.values()) <= MAX_KEPT and ranks.local_rank() == 0:
        with suppress(OSError):
            write_artifact(folder, write)
    return features


def _is_complete(folder: Path) -> bool:
    return not any(agree([read_manifest(folder) is None]))


def _write(folder: Path, readers: Mapping[str, Callable[[], Iterator[Features]]]) -> dict[str, Any]:
    for name, read in readers.items():
        write_npy(folder / f"{name}.npy", (rearrange(each, "f b d -> b f d").numpy() for each in read()))
    return {}
