"""Studies in which one claim is true by five points and more, or its opposite with a sign of -1."""

import math
from collections.abc import Sequence

import numpy as np

from isopix.studies.inductive_bias.results import Architecture
from tests.unit.studies.inductive_bias.worlds import World, world

RANK = {"conv": 2, "mixer": 1, "transformer-1": 0}
STEP = 0.05  # five points


def flat(level: float, depth: int) -> list[float]:
    return [level] * (depth + 1)


def blocks(sign: float) -> World:
    """Claims a and b, with the opposite for a negative sign of accuracy."""
    return world(
        lambda a: flat(0.5 + sign * STEP * RANK[a[0]], a[2]), lambda a: 4 - abs(sign) * 0.3 * RANK[a[0]]
    )


def follows(sign: float) -> World:
    """Claim b: accuracy follows a loss that differs by block, encoding and depth."""

    def loss(a: Architecture) -> float:
        return 4 - 0.4 * RANK[a[0]] - 0.15 * ["pix2vec", "fourier", "continuous"].index(a[1]) - 0.02 * a[2]

    return world(lambda a: flat(0.5 + sign * 0.2 * (4 - loss(a)), a[2]), loss, noise=0.001)


def equal_loss(sign: float) -> World:
    value = {"continuous": 2, "fourier": 1, "pix2vec": 0}

    def loss(a: Architecture) -> float:
        return 4 - 0.4 * RANK[a[0]] - 0.2 * math.log2(a[2]) - 0.3 * (a[1] == "pix2vec")

    return world(lambda a: flat(0.9 - 0.1 * loss(a) + sign * STEP * value[a[1]], a[2]), loss)


def best(sign: float) -> World:
    return world(
        lambda a: flat(0.5 + sign * STEP * (a[1] == "pix2vec"), a[2]),
        lambda a: 4 - sign * 0.3 * (a[1] == "pix2vec"),
    )


def depth(sign: float) -> World:
    return world(
        lambda a: flat(0.5 + sign * STEP * math.log2(a[2]), a[2]), lambda a: 4 - sign * 0.2 * math.log2(a[2])
    )


def middle(sign: float) -> World:
    def layers(a: Architecture) -> Sequence[float]:
        inner = 0.5 + sign * STEP * (a[0] == "conv")
        return [0.5, *[inner] * (a[2] - 1), 0.5]

    return world(layers)


def mixers(sign: float) -> World:
    def layers(a: Architecture) -> Sequence[float]:
        rising = 0.5 + STEP * np.abs(2 * np.arange(a[2] + 1) / a[2] - 1)  # lowest in the middle
        if a[0] != "mixer":
            return flat(0.5, a[2])
        shapes = {"fourier": rising + sign * STEP, "continuous": rising, "pix2vec": np.full(a[2] + 1, 0.5)}
        return shapes[a[1]].tolist()

    return world(layers)


def transformers(sign: float) -> World:
    def layers(a: Architecture) -> Sequence[float]:
        own = sign * STEP * (a[:2] == ("transformer-1", "pix2vec"))
        return [*[0.5 + own] * a[2], 0.5]

    return world(layers)


def preservation(sign: float) -> World:
    return world(
        lambda a: flat(0.5, a[2]), measured=lambda a: (0.5 + sign * 0.2 * RANK[a[0]], 0.1, 0.05, 0.5)
    )


def reconstructions(sign: float) -> World:
    def measured(a: Architecture) -> tuple[float, float, float, float]:
        worse = sign * 0.05 * (2 - RANK[a[0]])
        return 0.3, 0.2 + worse, 0.2 + worse, 0.5 + sign * 0.2 * (RANK[a[0]] == 1)

    return world(lambda a: flat(0.5, a[2]), measured=measured)


WORLDS = {
    "a": blocks,
    "b": follows,
    "c": equal_loss,
    "d": best,
    "e": depth,
    "f": middle,
    "g": mixers,
    "h": transformers,
    "i": preservation,
    "j": reconstructions,
}
