"""Results of the study's trials, and their means over seeds."""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Bool

from isopix.model.pool import Pool
from isopix.plots.study import MeanStd, TrialGroup
from isopix.probing.results import PIXEL_COMPONENTS, RAW_PIXELS

Architecture = tuple[str, str, int]  # block, encoding, depth
Correct = Bool[np.ndarray, " B"]


@dataclass(frozen=True)
class ProbedLayers:
    """Probes of some layers; accuracies in [0, 1].

    `correct` says of each of `num_images` test images whether a layer classifies it correctly, as
    `pack_correct` writes it: of every layer of a trained network, of the best layer of a baseline.
    """

    test_accuracies: tuple[float, ...]
    validation_accuracies: tuple[float, ...]  # everything is chosen by these alone
    best_layer: int
    correct: tuple[str, ...] = ()
    num_images: int = 0

    @property
    def test_accuracy(self) -> float:
        """The test accuracy of the best layer."""
        return self.test_accuracies[self.best_layer]

    @property
    def validation_accuracy(self) -> float:
        """The validation accuracy of the best layer."""
        return self.validation_accuracies[self.best_layer]

    def check(self) -> None:
        """Raise ValueError if accuracies, best layer and images do not belong together."""
        count = len(self.test_accuracies)
        if len(self.validation_accuracies) != count or not 0 <= self.best_layer < count:
            raise ValueError(f"best layer {self.best_layer} of {count} layers")
        layers = range(count) if len(self.correct) > 1 else (self.best_layer,)
        for layer, packed in zip(layers, self.correct, strict=False):
            share = float(unpack_correct(packed, self.num_images).mean())
            if abs(share - self.test_accuracies[layer]) * self.num_images > 0.5:
                given = f"{self.test_accuracies[layer]:.4g} of layer {layer}"
                raise ValueError(f"test accuracy {given}, but {share:.4g} of its images are correct")

    def correct_images(self, layer: int | None = None) -> Correct | None:
        """Return whether a layer, by default the best one, classifies each test image correctly; None if that
        is not known.
        """
        if not self.correct:
            return None
        chosen = self.best_layer if layer is None else layer
        return unpack_correct(self.correct[chosen if len(self.correct) > 1 else 0], self.num_images)


@dataclass(frozen=True)
class PoolProbes:
    """The probes of a network and of its baselines under one pool; `pixel_components` are as many principal
    components of the pixels as the network has features, None if these are not fewer than the pixels.
    """

    network: ProbedLayers
    untrained: ProbedLayers
    raw_pixels: ProbedLayers
    pixel_components: ProbedLayers | None
    majority: float

    @property
    def baselines(self) -> dict[str, ProbedLayers]:
        """What an accuracy that is learned from pixels must exceed: as many features, or more."""
        found = {"untrained": self.untrained, PIXEL_COMPONENTS: self.pixel_components}
        known = {name: probed for name, probed in found.items() if probed is not None}
        return known if self.pixel_components else {**known, RAW_PIXELS: self.raw_pixels}


@dataclass(frozen=True)
class Trial:
    """A trained and probed network; loss in nats per masked sub-pixel."""

    block: str  # conv, mixer, transformer-1, ...
    encoding: str  # pix2vec, fourier, continuous
    depth: int
    seed: int
    loss: float  # on validation images at the end of training; nothing is chosen by it
    probes: Mapping[Pool, PoolProbes] = field(default_factory=dict)

    @property
    def architecture(self) -> Architecture:
        """Block, encoding and depth."""
        return self.block, self.encoding, self.depth

    @property
    def kind(self) -> tuple[str, int]:
        """Encoding and depth: what networks of different blocks have in common."""
        return self.encoding, self.depth


def pack_correct(correct: Correct) -> str:
    """Return a bit for each image in base 64."""
    return base64.b64encode(np.packbits(correct).tobytes()).decode()


def unpack_correct(packed: str, num_images: int) -> Correct:
    """Return what `pack_correct` packed. Raises ValueError for another number of images."""
    bits = np.frombuffer(base64.b64decode(packed, validate=True), dtype=np.uint8)
    if len(bits) != -(-num_images // 8):
        raise ValueError(f"{len(bits)} bytes cannot say it of {num_images} images")
    return np.unpackbits(bits, count=num_images).astype(bool)


def group_trials(trials: Sequence[Trial], pool: Pool) -> list[TrialGroup]:
    """Return the mean over seeds of each architecture, in the order of first appearance."""
    groups: dict[Architecture, list[Trial]] = {}
    for trial in trials:
        groups.setdefault(trial.architecture, []).append(trial)
    return [_group(architecture, same, pool) for architecture, same in groups.items()]


def mean_std(values: Sequence[float]) -> MeanStd:
    """Return mean and standard deviation (n - 1) of at least one number."""
    std = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
    return MeanStd(float(np.mean(values)), std, len(values))


def _group(architecture: Architecture, trials: Sequence[Trial], pool: Pool) -> TrialGroup:
    probes = [trial.probes[pool] for trial in trials]
    layers = zip(*(each.network.test_accuracies for each in probes), strict=True)
    return TrialGroup(
        *architecture,
        loss=mean_std([trial.loss for trial in trials]),
        accuracy=mean_std([each.network.test_accuracy for each in probes]),
        layers=tuple(mean_std(layer) for layer in layers),
        untrained=mean_std([each.untrained.test_accuracy for each in probes]),
    )
