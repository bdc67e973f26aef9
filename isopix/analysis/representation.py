"""Representation quality against loss: probe accuracy and validation loss over the course of pre-training."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from isopix.core.correlation import Correlation, spearman


class ProbePoint(NamedTuple):
    """Validation loss in nats, and probe accuracy with its 95 % interval, at a training step."""

    step: int
    loss: float
    accuracy: float
    low: float
    high: float


def probe_points(records: Iterable[Mapping[str, Any]]) -> list[ProbePoint]:
    """Return the steps of a run's log that have both a validation loss and a probe, in order."""
    names = ("step", "loss_nats", "probe_accuracy", "probe_low", "probe_high")
    points = [
        ProbePoint(*map(record.__getitem__, names)) for record in records if set(names) <= record.keys()
    ]
    return sorted(points)


def loss_accuracy_correlation(points: Sequence[ProbePoint]) -> Correlation | None:
    """Return Spearman's correlation of loss and accuracy after step 0: -1 if every lower loss has a higher
    accuracy. None for fewer than five points, and for constant losses or accuracies.

    The interval assumes independent points. Those of one run are not, so that it is too narrow.
    """
    trained = [point for point in points if point.step > 0]
    losses, accuracies = ([getattr(point, name) for point in trained] for name in ("loss", "accuracy"))
    return spearman(np.array(losses), np.array(accuracies))
