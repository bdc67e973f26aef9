"""Results of the study's trials, and their means over seeds."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from isopix.plots.study import MeanStd, TrialGroup

Architecture = tuple[str, str, int]  # block, encoding, depth


@dataclass(frozen=True)
class Trial:
    """A trained and probed network; loss in nats per masked sub-pixel, accuracies in [0, 1]."""

    block: str  # conv, mixer, transformer-1, transformer-4
    encoding: str  # pix2vec, fourier, continuous
    depth: int
    seed: int
    loss: float  # on validation images at the end of training; nothing is chosen by it
    test_accuracies: tuple[float, ...]  # of a probe of every layer 0..L
    validation_accuracies: tuple[float, ...]  # everything is chosen by these alone
    best_layer: int  # on validation images

    @property
    def test_accuracy(self) -> float:
        """The test accuracy of the best layer."""
        return self.test_accuracies[self.best_layer]

    @property
    def validation_accuracy(self) -> float:
        """The validation accuracy of the best layer."""
        return self.validation_accuracies[self.best_layer]

    @property
    def architecture(self) -> Architecture:
        """Block, encoding and depth."""
        return self.block, self.encoding, self.depth


def group_trials(trials: Sequence[Trial]) -> list[TrialGroup]:
    """Return the mean over seeds of each architecture, in the order of first appearance."""
    groups: dict[Architecture, list[Trial]] = {}
    for trial in trials:
        groups.setdefault(trial.architecture, []).append(trial)
    return [_group(architecture, same) for architecture, same in groups.items()]


def mean_std(values: Sequence[float]) -> MeanStd:
    """Return mean and standard deviation (n - 1) of at least one number."""
    std = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
    return MeanStd(float(np.mean(values)), std, len(values))


def _group(architecture: Architecture, trials: Sequence[Trial]) -> TrialGroup:
    layers = zip(*(trial.test_accuracies for trial in trials), strict=True)
    return TrialGroup(
        *architecture,
        loss=mean_std([trial.loss for trial in trials]),
        accuracy=mean_std([trial.test_accuracy for trial in trials]),
        layers=tuple(mean_std(layer) for layer in layers),
    )
