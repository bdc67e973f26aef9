"""Reading: the features of an image set, from a network or from its pixels alone, as a probe needs them."""

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import torch

from isopix.core.config import to_dict
from isopix.core.device import Precision
from isopix.core.types import Hidden, Images, Labels
from isopix.data.dataset import ImageSet, default_cache, digest
from isopix.data.sources.base import digest_of
from isopix.model.backbone import Backbone
from isopix.model.start_token import without_start_token
from isopix.objectives.network import Network
from isopix.probe.feature_cache import stored
from isopix.probe.feature_splits import Split, Splits
from isopix.probe.features import Features, blocks, draw_masks, gather, raw_pixels
from isopix.probe.results import Protocol
from isopix.recipes.recipe import NETWORK, Recipe

LAYOUT = 2  # to be raised whenever the same network and images would give other features
PIXELS = 1024  # images whose pixels are read at once
# Of a recipe: what features depend on beside the weights.
PARTS = tuple(name for name in NETWORK if name != "head")

Note = Callable[[str], None]
Done = Callable[[int], None]  # told how many images have been read


class Part(NamedTuple):
    """Images that are read in one go; `mask` names the masks that they are read under, if any."""

    name: str
    images: Images
    labels: Labels
    mask: str | None


def parts(data: ImageSet, masks: int) -> list[Part]:
    """Train, validation and test, each image under a mask of its own; the test images once for each mask.

    The data has been seen to have labels.
    """
    splits = {"train": data.train, "validation": data.validation, "test": data.test}
    found = []
    for name, split in splits.items():
        assert split.labels is not None
        for number in range(max(1, masks) if name == "test" else 1):
            mask = f"probe.mask.{name}.{number}" if masks else None
            found.append(Part(f"{name}-{number}", split.images, split.labels, mask))
    return found


@dataclass(frozen=True)
class Pixels:
    """Raw pixels: what has learnt nothing."""

    first = 0
    masks = 0

    def read(self, part: Part) -> Iterator[Features]:
        for start in range(0, len(part.images), PIXELS):
            yield raw_pixels(part.images[start : start + PIXELS])

    def identity(self) -> str:
        return "raw pixels"


@dataclass(frozen=True)
class States:
    """The pooled states of a network, of all layers or of the protocol's one."""

    network: Network
    recipe: Recipe
    protocol: Protocol
    precision: Precision

    @property
    def first(self) -> int:
        """The number of the first layer that is read."""
        return self.protocol.layers if isinstance(self.protocol.layers, int) else 0

    @property
    def masks(self) -> int:
        return self.protocol.masks

    def read(self, part: Part) -> Iterator[Features]:
        backbone, how = self._backbone(), self.protocol
        for features in blocks(
            backbone,
            part.images,
            hidden=self._hidden(part),
            stream=how.stream,
            pool=how.pool,
            precision=self.precision,
        ):
            yield features[self.first :]

    def identity(self) -> str:
        """A hash of all that the features depend on but the images."""
        how, recipe = self.protocol, to_dict(self.recipe)
        layer = how.layers if isinstance(how.layers, int) else None
        settings: list[object] = [how.stream, how.pool, how.reading, layer, self.precision]
        settings += [how.masks, how.seed if how.masks else None, {name: recipe[name] for name in PARTS}]
        return digest_of(json.dumps(settings, sort_keys=True).encode(), _weights(self.network))

    def _backbone(self) -> Backbone:
        network = self.network.backbone
        backbone = without_start_token(network) if self.protocol.reading == "huggingface" else network
        return backbone.upto(self.first) if isinstance(self.protocol.layers, int) else backbone

    def _hidden(self, part: Part) -> Hidden | None:
        if part.mask is None:
            return None
        return draw_masks(self.network, part.images, seed=self.protocol.seed, purpose=part.mask)


Source = Pixels | States


def splits(source: Source, data: ImageSet, done: Done) -> Splits:
    """All features in memory, as they are."""
    counted = _Counted(source, done)
    train, validation, test, *again = (
        Split(gather(counted.read(part), len(part.images)), part.labels) for part in parts(data, source.masks)
    )
    return Splits(train, validation, test, tuple(again), first=source.first)


def stored_splits(source: Source, data: ImageSet, done: Done, note: Note) -> Splits:
    """All features in 16 bits on the disk, read from there if they have been read before; `note` is told.

    They lie in $ISOPIX_CACHE/features, in a folder named by a hash of the weights, the images and how they
    were read. Raises what `stored` raises.
    """
    wanted = parts(data, source.masks)
    key = digest_of(str(LAYOUT).encode(), source.identity().encode(), digest(data).encode())
    folder = default_cache() / "features" / key
    counted = _Counted(source, done)
    kept = stored({part.name: partial(counted.read, part) for part in wanted}, folder)
    size = sum(each.nbytes for each in kept.features.values()) / 2**20
    note(f"features {'read from' if kept.found else 'kept in'} {folder} ({size:,.1f} MiB)")
    train, validation, test, *again = (Split(kept.features[part.name], part.labels) for part in wanted)
    return Splits(train, validation, test, tuple(again), kept.frame, source.first)


class _Counted:
    """Reads parts one after another, and tells how many images are done in all."""

    def __init__(self, source: Source, done: Done):
        self.source, self.done, self.count = source, done, 0

    def read(self, part: Part) -> Iterator[Features]:
        for features in self.source.read(part):
            self.count += features.shape[1]
            self.done(self.count)
            yield features


def _weights(network: Network) -> bytes:
    """A hash of every tensor of a network."""
    state = hashlib.blake2b(digest_size=16)
    for name, tensor in sorted(network.tensors().items()):
        state.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode())
        state.update(tensor.cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return state.digest()
