"""Few labels: how wrong a classifier is that has learnt from a few images of each class."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import mean, stdev

import torch

from isopix.data.splits import Indices
from isopix.probe.feature_splits import Split, Splits
from isopix.probe.probe import probe
from isopix.probe.results import Protocol


@dataclass(frozen=True)
class FewLabels:
    """Shares of test images that are answered wrongly, one for each random subset of so many `labels` of each
    class.

    `layer` has the highest validation accuracy on average over the subsets; None where there are no layers.
    """

    labels: int
    images: int  # in one subset
    tested: int  # images of the test split
    layer: int | None
    errors: tuple[float, ...]

    @property
    def mean(self) -> float:
        return mean(self.errors)

    @property
    def deviation(self) -> float:
        """Of one subset's error from the mean (n - 1); 0 for a single subset."""
        return stdev(self.errors) if len(self.errors) > 1 else 0.0


def few_labels(
    splits: Splits, subsets: Sequence[Indices], labels: int, *, protocol: Protocol, device: torch.device
) -> FewLabels:
    """The error of a probe that learns from each of these subsets of train alone (iGPT section 4.5).

    Strength and layer are chosen on validation, the layer once for all subsets. Raises what `probe` raises.
    """
    records = [probe(_subset(splits, index), protocol, device=device) for index in subsets]
    layers = list(zip(*(record.layers for record in records), strict=True))
    best = max(range(len(layers)), key=lambda place: mean(score.validation for score in layers[place]))
    chosen = layers[best]
    errors = tuple(1 - score.test for score in chosen)
    return FewLabels(labels, len(subsets[0]), len(splits.test), chosen[0].layer, errors)


def _subset(splits: Splits, index: Indices) -> Splits:
    train = splits.train
    return replace(splits, train=Split(train.features[:, index], train.labels[index]))
