"""Made-up studies whose truth is known, for tests of the claims."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from isopix.recipes.isotropic import ENCODINGS
from isopix.studies.inductive_bias.claims import evaluate_claims
from isopix.studies.inductive_bias.evidence import StudyEvidence, pack_correct
from isopix.studies.inductive_bias.results import Architecture, ClaimRecord, PoolProbes, ProbedLayers, Trial

BLOCKS = ("conv", "mixer", "transformer-1")
CELLS = [(block, encoding, depth) for block in BLOCKS for encoding in ENCODINGS for depth in (1, 3, 6)]


def probed(
    test: Sequence[float], validation: Sequence[float] | None = None, images: int = 0, seed: int = 0
) -> ProbedLayers:
    """Probes with these accuracies; with `images` test images, drawn so that each accuracy is exact."""
    chosen = tuple(validation or test)
    draw = np.random.default_rng(seed)
    if not images:
        return ProbedLayers(tuple(test), chosen, int(np.argmax(chosen)), (), 0)
    correct = tuple(pack_correct(draw.permutation(images) < round(each * images)) for each in test)
    exact = tuple(round(each * images) / images for each in test)
    return ProbedLayers(exact, chosen, int(np.argmax(chosen)), correct, images)


def pool_probes(network: ProbedLayers, baseline: float = 0.2) -> PoolProbes:
    """The probes of a network above baselines of this accuracy."""
    base = probed([baseline], images=network.num_images)
    return PoolProbes(network, base, base, base, 0.1)


def trial(
    architecture: Architecture,
    seed: int,
    loss: float,
    network: ProbedLayers,
    baseline: float = 0.2,
    measurements: Mapping[str, Any] | None = None,
) -> Trial:
    """A finished trial under the mean."""
    probes = {"mean": pool_probes(network, baseline)}
    return Trial(*architecture, seed=seed, loss=loss, probes=probes, measurements=measurements or {})


@dataclass
class World:
    """Trials with their measurements."""

    trials: list[Trial] = field(default_factory=list)

    def only(self, chosen: Callable[[Trial], bool]) -> "World":
        return World([each for each in self.trials if chosen(each)])

    def with_baselines(
        self, accuracy: float, chosen: Callable[[Trial], bool] = lambda trial: True
    ) -> "World":
        """The world in which the baselines of these trials have another accuracy."""

        def changed(trial: Trial) -> Trial:
            return replace(trial, probes={"mean": pool_probes(trial.probes["mean"].network, accuracy)})

        return World([changed(each) if chosen(each) else each for each in self.trials])

    def results(self) -> dict[str, ClaimRecord]:
        """The results of the claims by letter."""
        found = evaluate_claims(StudyEvidence(self.trials, "mean"))
        return {each.letter: each for each in found}

    def verdicts(self) -> dict[str, str]:
        return {letter: each.verdict for letter, each in self.results().items()}


def world(
    accuracy: Callable[[Architecture], Sequence[float]],
    loss: Callable[[Architecture], float] = lambda architecture: 4.0,
    *,
    seeds: int = 4,
    noise: float = 0.004,
    images: int = 0,
    cells: Sequence[Architecture] = CELLS,
    measured: Callable[[Architecture], tuple[float, ...]] = lambda architecture: (0.3, 0.1, 0.05, 0.5),
) -> World:
    """A study with these true accuracies of layers, losses, and measurements (distance preservation, mean
    absolute error, histogram error and misplaced fraction), and a little noise by seed.
    """
    draw, found = np.random.default_rng(0), World()
    for seed in range(seeds):
        for number, architecture in enumerate(cells):
            test = np.array(accuracy(architecture)) + draw.normal(0, noise)
            network = probed(test.tolist(), images=images, seed=1000 * seed + number)
            noisy = loss(architecture) + draw.normal(0, noise)
            numbers = np.array(measured(architecture)) + draw.normal(0, noise, 4)
            preservation, error, histogram, misplaced = numbers
            errors = {"mean_absolute": error, "histogram": histogram, "misplaced_fraction": misplaced}
            levels = dict.fromkeys(("distance_preservation", "local_similarity"), [preservation] * 3)
            measured_here = {**levels, "color_error": errors}
            found.trials.append(trial(architecture, seed, noisy, network, measurements=measured_here))
    return found


# Studies in which one claim is true by five points and more, or its opposite with a sign of -1.
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
