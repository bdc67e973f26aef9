"""The spreads of studies of inductive biases: as their simulation assumes them, or as results have them."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from operator import getitem

import numpy as np
from cells import RESULTS
from jaxtyping import Float
from scipy.special import ndtr, ndtri

from isopix.studies.inductive_bias.grid import Study
from isopix.studies.inductive_bias.results import ProbedLayers, Trial, TrialResult

POOL = "grid4"  # under which most claims can be judged

Cells = Float[np.ndarray, "E D S"]  # a value of each encoding, depth and seed
Blocks = Float[np.ndarray, "B E D S"]


@dataclass(frozen=True)
class Components:
    """Standard deviations of a number: between seeds of a network, between the networks of a block and an
    encoding, and between encodings. Each is without the errors that those before it cause in means.
    """

    seeds: float
    networks: float = 0.0
    encodings: float = 0.0


@dataclass(frozen=True)
class Spread:
    """Spreads of accuracies (points), losses (nats), distance preservation and color errors (fractions).

    Of networks and encodings they are those of a block's difference from the others. `first_layer` and
    `last_layer` are of the best inner layer's advantage in convolutions (points). `difficulty` is that of
    test images and `taste` that of a network's own image effects, in probits.
    """

    accuracy: Components
    loss: Components
    preservation: Components = Components(0.05)
    mean_absolute: Components = Components(0.005)
    histogram: Components = Components(0.005)
    misplaced_fraction: Components = Components(0.02)
    first_layer: Components = Components(0.0)
    last_layer: Components = Components(0.0)
    difficulty: float = 1.0
    taste: float = 0.6


def measured_spread(name: str) -> Spread:
    """Return the spreads of a committed study, under `POOL`."""
    done = {}
    for each in Study.open(RESULTS / name).results().values():
        if each.trial is not None:
            done[*each.trial.architecture, each.trial.seed] = each
    blocks, encodings, depths, seeds = (list(dict.fromkeys(key[part] for key in done)) for part in range(4))

    def read(value: Callable[[TrialResult], float]) -> Blocks:
        values = [
            [[[value(done[b, e, d, s]) for s in seeds] for d in depths] for e in encodings] for b in blocks
        ]
        return np.array(values, dtype=float)

    def measured(*path: str | int) -> Blocks:
        return read(lambda result: reduce(getitem, path, result.metrics["measurements"]))

    def advantage(end: int) -> Components:
        convolutions = read(lambda result: inner_advantage(_network(result), end))[blocks.index("conv")]
        return of_encodings(convolutions[:, np.array(depths) > 1])

    return Spread(
        accuracy=of_blocks(read(lambda result: 100 * _network(result).test_accuracy)),
        loss=of_blocks(read(lambda result: _trial(result).loss)),
        preservation=Components(
            between_seeds(measured("distance_preservation", 0)[:, encodings.index("pix2vec")])
        ),
        mean_absolute=of_blocks(measured("color_error", "mean_absolute")),
        histogram=of_blocks(measured("color_error", "histogram")),
        misplaced_fraction=of_blocks(measured("color_error", "misplaced_fraction")),
        first_layer=advantage(0),
        last_layer=advantage(-1),
    )


def of_blocks(values: Blocks) -> Components:
    """Return the components of the interactions with the block: what an encoding or a depth adds to all
    blocks alike is taken out.
    """
    means = values.mean(3)
    cells = means.mean(2)
    own = cells - cells.mean(1, keepdims=True) - cells.mean(0, keepdims=True) + cells.mean()
    within = means - cells[..., None] - (means.mean((0, 1)) - means.mean())
    blocks, encodings, depths = means.shape
    return _components(
        between_seeds(values) ** 2,
        np.square(within).sum() / ((blocks * encodings - 1) * (depths - 1)),
        np.square(own).sum() / ((blocks - 1) * (encodings - 1)),
        values.shape[2:],
    )


def of_encodings(values: Cells) -> Components:
    """Return the components of one block."""
    seeds, means = between_seeds(values) ** 2, values.mean(2)
    within = means.var(1, ddof=1).mean() if means.shape[1] > 1 else seeds / values.shape[2]
    return _components(seeds, within, means.mean(1).var(ddof=1), values.shape[1:])


def between_seeds(values: Float[np.ndarray, "*networks S"]) -> float:
    """Return the standard deviation between seeds, pooled over networks."""
    return float(np.sqrt(values.var(-1, ddof=1).mean()))


def inner_advantage(probed: ProbedLayers, end: int) -> float:
    """Return by how many points the best inner layer, as validation images say, is above an end of a network;
    0 without inner layers.
    """
    test, inner = probed.test_accuracies, probed.validation_accuracies[1:-1]
    return 100 * (test[1 + int(np.argmax(inner))] - test[end]) if inner else 0.0


def image_noise(spread: Spread, accuracy: float, images: int) -> float:
    """Return the standard deviation, in points, of the simulated test accuracy of a network that is due to
    the independent noise of every image.
    """
    scatter = math.hypot(spread.difficulty, spread.taste)
    quantiles = ndtri((np.arange(1000) + 0.5) / 1000)
    correct = ndtr(math.hypot(1, scatter) * ndtri(accuracy) - scatter * quantiles)
    return 100 * math.sqrt(float(np.mean(correct * (1 - correct))) / images)


def _components(seeds: float, networks: float, encodings: float, counts: tuple[int, ...]) -> Components:
    """Return the components of three mean squares: the first is part of the second, and that of the third."""
    depths, repeats = counts
    parts = seeds, networks - seeds / repeats, encodings - networks / depths
    return Components(*(round(math.sqrt(max(0.0, each)), 5) for each in parts))


def _trial(result: TrialResult) -> Trial:
    assert result.trial is not None, "it is done"
    return result.trial


def _network(result: TrialResult) -> ProbedLayers:
    return _trial(result).probes[POOL].network
