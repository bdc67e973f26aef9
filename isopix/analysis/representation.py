"""Representation against loss: what a network knows beside how well it predicts, as its training goes on."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from isopix.transfer.bootstrap import REACH

FEWEST = 5  # points below which a rank correlation is not told


class Point(NamedTuple):
    """A network at a step: validation loss in nats, and a probe's accuracy with its 95 % interval."""

    step: int
    loss: float
    accuracy: float
    low: float
    high: float


class Correlation(NamedTuple):
    """Spearman's rank correlation of so many points, and its 95 % interval."""

    rho: float
    low: float
    high: float
    points: int


def points(records: Iterable[Mapping[str, Any]]) -> list[Point]:
    """The steps at which a run's log has both a validation loss and a probe, in order."""
    losses: dict[int, float] = {}
    found: dict[int, Point] = {}
    for record in records:
        step = record["step"]
        if record["kind"] == "evaluation" and record.get("split") == "validation":
            losses[step] = record["loss_nats"]
        elif record["kind"] == "probe" and step in losses:
            found[step] = Point(step, losses[step], *(record[name] for name in ("accuracy", "low", "high")))
    return [found[step] for step in sorted(found)]


def correlation(line: Sequence[Point]) -> Correlation | None:
    """Between loss and accuracy over the points after the first step; None for fewer than five, or for equal
    losses or accuracies throughout.

    -1: every lower loss has a higher accuracy. The interval is Fisher's with the variance of Bonett and
    Wright (2000), (1 + rho^2 / 2) / (n - 3); rho is first kept half a step of its scale away from -1 and 1,
    where that interval would have no width. It takes points for independent, which those of one training are
    not: the truth is less certain still.
    """
    trained = [point for point in line if point.step > 0]
    count = len(trained)
    if count < FEWEST:
        return None
    losses = ranks(np.array([point.loss for point in trained]))
    accuracies = ranks(np.array([point.accuracy for point in trained]))
    if np.ptp(losses) == 0 or np.ptp(accuracies) == 0:
        return None
    rho = float(np.corrcoef(losses, accuracies)[0, 1])
    most = 1 - 6 / (count * (count**2 - 1))
    centre = math.atanh(min(most, max(-most, rho)))
    half = REACH * math.sqrt((1 + rho**2 / 2) / (count - 3))
    return Correlation(rho, math.tanh(centre - half), math.tanh(centre + half), count)


def ranks(values: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """1 for the smallest; equal values share the mean of their ranks."""
    _, group, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (counts.cumsum() - (counts - 1) / 2)[group]
