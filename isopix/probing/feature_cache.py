"""The feature cache: in 16 bits, mapped into memory and read a batch at a time, or as they are."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from einops import rearrange

from isopix.probing.feature_splits import CONSTANT, AffineScale, Features
from isopix.storage.arrays import NpyWriter, open_memmap
from isopix.storage.cache import read_manifest, write_artifact

MAX_KEPT = 2**28  # bytes of features in float32 for which a cache is worth its disk space
SCALE_IMAGES = 1024  # the first images, whose mean and standard deviation scale all features

Batches = Iterator[Features]


class CachedFeatures(NamedTuple):
    """Features by name as float16, scaled; their scale; and whether the folder held them already."""

    features: dict[str, Features]
    scale: AffineScale
    found: bool


def cached(readers: Mapping[str, Callable[[], Batches]], folder: Path) -> CachedFeatures:
    """Return the features that each of `readers` yields: from `folder` if it is complete and intact, else
    computed and written there.

    All are scaled by the mean and standard deviation of the first images of the first reader, so that 16 bits
    suffice however far from zero a feature lies. Raises RuntimeError if the folder cannot be written.
    """
    found = read_manifest(folder) is not None
    if not found:
        try:
            write_artifact(folder, lambda scratch: _write(scratch, readers))
        except OSError as error:
            raise RuntimeError(
                f"features cannot be written to {folder.parent} ({error.strerror}); "
                "set ISOPIX_CACHE to another folder"
            ) from error
    scale = AffineScale(*(open_memmap(folder / f"{name}.npy") for name in ("center", "scale")))
    features = {name: open_memmap(folder / f"features-{name}.npy") for name in readers}
    by_layer = {name: rearrange(each, "b f d -> f b d") for name, each in features.items()}
    return CachedFeatures(by_layer, scale, found)


def kept(readers: Mapping[str, Callable[[], Features]], folder: Path) -> dict[str, Features]:
    """Return the features that each of `readers` returns, in float32: from `folder` if it is complete and
    intact, else computed, and written there if they are at most MAX_KEPT bytes and the disk allows it.
    """
    if read_manifest(folder) is not None:
        return {name: torch.from_numpy(np.load(folder / f"{name}.npy")) for name in readers}
    features = {name: read() for name, read in readers.items()}

    def write(scratch: Path) -> dict[str, Any]:
        for name, each in features.items():
            np.save(scratch / f"{name}.npy", each.numpy())
        return {}

    if sum(each.nbytes for each in features.values()) <= MAX_KEPT:
        with suppress(OSError):
            write_artifact(folder, write)
    return features


def _write(folder: Path, readers: Mapping[str, Callable[[], Batches]]) -> dict[str, Any]:
    scale = None
    for name, read in readers.items():
        batches = read()
        if scale is None:
            first = _first_images(batches)
            scale, batches = _scale_of(first), chain([first], batches)
            np.save(folder / "center.npy", scale.center.numpy())
            np.save(folder / "scale.npy", scale.scale.numpy())
        layers, _, width = scale.center.shape
        file = (folder / f"features-{name}.npy").open("wb")
        with NpyWriter(file, (layers, width), np.float16) as writer:
            for batch in batches:
                scaled = ((batch - scale.center) / scale.scale).half()
                writer.append(rearrange(scaled, "f b d -> b f d").numpy())
    return {}


def _first_images(batches: Batches) -> Features:
    """Return the first batches, until they hold SCALE_IMAGES images."""
    first: list[Features] = []
    while sum(batch.shape[1] for batch in first) < SCALE_IMAGES:
        batch = next(batches, None)
        if batch is None:
            break
        first.append(batch)
    return torch.cat(first, 1)


def _scale_of(features: Features) -> AffineScale:
    """Return mean and standard deviation; for features constant here, their magnitude, as others may vary."""
    center = features.mean(1, keepdim=True)
    deviation, magnitude = features.std(1, keepdim=True, correction=0), center.abs()
    varies = deviation > CONSTANT * magnitude
    return AffineScale(center, torch.where(varies, deviation, magnitude.clamp_min(1.0)))
