"""Made-up studies whose truth is known, for tests of the claims."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from isopix.recipes.isotropic import ENCODINGS
from isopix.studies.inductive_bias.claims import evaluate_claims
from isopix.studies.inductive_bias.evidence import StudyEvidence, pack_correct
from isopix.studies.inductive_bias.results import Architecture, PoolProbes, ProbedLayers, Trial
from isopix.studies.results import ClaimRecord

BLOCKS = ("conv", "mixer", "transformer-1")
CELLS = [(block, encoding, depth) for block in BLOCKS for encoding in ENCODINGS for depth in (1, 3, 6)]
IMAGES = 4000
EFFECTS = {"points": 3.0, "points per doubling": 1.5, "nats": 0.1, "": 0.3, "% of range": 2.0, "%": 10.0}


def probed(
    test: Sequence[float], validation: Sequence[float] | None = None, images: int = 0, seed: int = 0
) -> ProbedLayers:
    """Probes with these accuracies; with `images` test images, drawn so that each accuracy is exact."""
    chosen = tuple(validation or test)
    draw = np.random.default_rng(seed)
    correct = (
        tuple(pack_correct(draw.permutation(images) < round(each * images)) for each in test)
        if images
        else ()
    )
    exact = tuple(round(each * images) / images for each in test) if images else tuple(test)
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

    def results(self) -> dict[str, ClaimRecord]:
        """The results of the claims by letter."""
        found = evaluate_claims(StudyEvidence(self.trials, "mean", EFFECTS))
        return {each.letter: each for each in found}

    def verdicts(self) -> dict[str, str]:
        """The verdicts by letter."""
        return {letter: each.verdict for letter, each in self.results().items()}


def world(
    accuracy: Callable[[Architecture], Sequence[float]],
    loss: Callable[[Architecture], float] = lambda architecture: 4.0,
    *,
    seeds: int = 4,
    noise: float = 0.004,
    images: int = 0,
    cells: Sequence[Architecture] = CELLS,
    measured: Callable[[Architecture], tuple[float, float, float, float]] = lambda architecture: (
        0.3,
        0.1,
        0.05,
        0.5,
    ),
    baseline: float = 0.2,
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
            preservation, error, histogram, misplaced = np.array(measured(architecture)) + draw.normal(
                0, noise, 4
            )
            errors = {"mean_absolute": error, "histogram": histogram, "misplaced_fraction": misplaced}
            measured_here = {"distance_preservation": [preservation] * 3, "color_error": errors}
            found.trials.append(trial(architecture, seed, noisy, network, baseline, measured_here))
    return found
