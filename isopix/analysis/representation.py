"""Representation against loss: what a network knows beside how well it predicts, as its training goes on."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from isopix.core.correlation import Correlation, spearman


class Point(NamedTuple):
    """A network at a step: validation loss in nats, and a probe's accuracy with its 95 % interval."""

    step: int
    loss: float
    accuracy: float
    low: float
    high: float


def points(records: Iterable[Mapping[str, Any]]) -> list[Point]:
    """The steps at which a run's log has both a validation loss of codes and a probe, in order."""
    names = ("step", "loss_nats", "probe_accuracy", "probe_low", "probe_high")
    found = [Point(*map(record.__getitem__, names)) for record in records if set(names) <= record.keys()]
    return sorted(found)


def correlation(line: Sequence[Point]) -> Correlation | None:
    """Spearman's, of loss and accuracy over the points after the first step; None for fewer than five, or for
    equal losses or accuracies throughout.

    -1: every lower loss has a higher accuracy. The interval takes points for independent, which those of one
    training are not: the truth is less certain still.
    """
    trained = [point for point in line if point.step > 0]
    losses, accuracies = ([getattr(point, name) for point in trained] for name in ("loss", "accuracy"))
    return spearman(np.array(losses), np.array(accuracies))
