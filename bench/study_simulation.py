"""Simulates studies of inductive biases and counts false refutations and missed claims.

python bench/study_simulation.py              # writes bench/results/study-simulation.json; half an hour

Each simulated study has the networks, seeds and test images of a scale. Accuracies vary with the network's
kind (independently), with the seed of each network and layer, and with the test images, which differ in
difficulty and are shared by all networks. Worlds: `none`, no difference between any networks; `mixed`, none
on average, but kinds of networks differ by chance; `encodings`, the same where the encodings of a block
differ and its depths do not; and for each claim one in which it is true by the effect
that its scale is planned to detect. Claims d, g, h and i are of single networks: where kinds differ by
chance, these do differ, so that refuting the claims is right.

Scales named `…, measured` are simulated with all spreads of their finished study, also those of the blocks'
differences over encodings, of color errors, of distance preservation and, in the world of claim f, of the
first and last layers of convolutions. Those of test images are assumed.
"""

import argparse
import json
import math
import platform
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from cells import RESULTS, read
from scipy.special import ndtri

from isopix.studies.inductive_bias.claims import CLAIMS, evaluate_claims
from isopix.studies.inductive_bias.evidence import StudyEvidence, Term
from isopix.studies.inductive_bias.results import Architecture, PoolProbes, ProbedLayers, Trial
from isopix.studies.inductive_bias.study import SCALES, Scale

RESULT = RESULTS / "study-simulation.json"
LETTERS = tuple(CLAIMS)
WORLDS = ("none", "mixed", "encodings", *LETTERS)
NUM_IMAGES = {"tiny": 1350, "small": 10_000, "paper": 10_000}
# Translated digits are placed three times in the test images.
GROUP_SIZE = {"tiny": 3, "small": 1, "paper": 1}
# The differences that a study is planned to detect: of accuracies by scale, and others ("": a correlation).
POINTS = {"tiny": 20.0, "small": 5.0, "paper": 5.0}
EFFECTS = {"nats": 0.2, "nats per doubling": 0.1, "": 0.3, "% of range": 2.0, "%": 10.0}
COLOR_ERRORS = ("mean_absolute", "histogram", "misplaced_fraction")
OF_SINGLE_NETWORKS = ("d", "g", "h", "i")  # claims whose networks differ by exactly the stated effect
BASELINE, CHANCE = 0.35, 0.1
LEVEL = 0.45  # of accuracy
VALIDATION_IMAGES = 2000
OF_LAYERS = 0.3  # spread of each layer's own noise between seeds, as a fraction of the network's


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


def as_measured(scale: str) -> Spread:
    """Return the spreads of a scale's finished study, as the result of the last simulation has them."""
    found = read(RESULT.name)["scales"][f"{scale}, measured"]["spread"]
    return Spread(
        **{name: Components(**each) if isinstance(each, dict) else each for name, each in found.items()}
    )


SPREADS = {  # those of seeds and networks are near the measured ones, or larger
    "tiny": Spread(Components(2.5, 3.0), Components(0.017, 0.03)),
    "small": Spread(Components(0.7, 1.5), Components(0.017, 0.04)),
    "paper": Spread(Components(0.7, 1.5), Components(0.017, 0.04)),
    "tiny, measured": as_measured("tiny"),
    "small, measured": as_measured("small"),
}


class SimulatedEvidence(StudyEvidence):
    """Evidence whose per-image correctness is given as arrays and not packed."""

    arrays: dict[int, np.ndarray]

    def accuracy_of(self, probed: ProbedLayers, layer: int | None = None) -> Term:
        read = probed.best_layer if layer is None else layer
        return Term(100, probed.test_accuracies[read], self.arrays[id(probed)][read])


def accuracies(world: str, architecture: Architecture, effect: float) -> np.ndarray:
    """Return the true accuracy of each layer in points above LEVEL."""
    block, encoding, depth = architecture
    layers = np.zeros(depth + 1)
    if world in ("a", "b"):
        layers += effect * {"conv": 2, "mixer": 1}.get(block, 0)
    elif world == "c":
        layers += effect * {"continuous": 2, "fourier": 1}.get(encoding, 0)
        layers += -20 * (losses("c", architecture, 0.1) - 4)
    elif world == "d":
        layers += effect * (encoding == "pix2vec")
    elif world == "e":
        layers += effect / 2 * math.log2(depth)
    elif world == "f" and block == "conv":
        layers[1:-1] += effect
    elif world == "g" and block == "mixer":
        rising = effect * np.arange(depth + 1) / depth
        layers += {"fourier": effect + rising, "continuous": rising}.get(encoding, 0 * rising)
    elif world == "h" and block.startswith("transformer") and encoding == "pix2vec":
        layers[:-1] += effect
    return layers


def losses(world: str, architecture: Architecture, effect: float) -> float:
    block, encoding, depth = architecture
    loss = 4.0
    if world in ("a", "b", "c"):
        loss -= effect * {"conv": 2, "mixer": 1}.get(block, 0)
    if world == "c":
        loss -= 2 * effect * math.log2(depth)
    if world == "d":
        loss -= effect * (encoding == "pix2vec")
    if world == "e":
        loss -= effect / 2 * math.log2(depth)
    return loss


def measurements(world: str, block: str, draw: np.random.Generator, spread: Spread) -> dict[str, Any]:
    """Return distance preservation and color errors, as they vary between seeds."""
    rank = {"conv": 2, "mixer": 1}.get(block, 0)
    preservation = 0.3 + EFFECTS[""] * rank * (world == "i") + draw.normal(0, spread.preservation.seeds)
    error = EFFECTS["% of range"] / 100 * (2 - rank) * (world == "j")
    misplaced = EFFECTS["%"] / 100 * (rank == 1) * (world == "j")
    return {
        "distance_preservation": [preservation] * 3,
        "local_similarity": [preservation] * 3,
        "color_error": {
            "mean_absolute": 0.1 + error + draw.normal(0, spread.mean_absolute.seeds),
            "histogram": 0.05 + error + draw.normal(0, spread.histogram.seeds),
            "misplaced_fraction": 0.5 + misplaced + draw.normal(0, spread.misplaced_fraction.seeds),
        },
    }


def simulated_study(name: str, world: str, draw: np.random.Generator) -> SimulatedEvidence:
    """Return the trials of one simulated study and what was measured of them."""
    scale_name, spread = name.split(",", maxsplit=1)[0], SPREADS[name]
    scale, images = SCALES[scale_name], NUM_IMAGES[scale_name]
    groups = np.arange(images) // GROUP_SIZE[scale_name]
    difficulty = spread.difficulty * draw.normal(size=images // GROUP_SIZE[scale_name] + 1)[groups]
    scatter = math.hypot(1, spread.difficulty, spread.taste)
    arrays = dict[int, np.ndarray]()

    def probed(levels: np.ndarray, own: np.ndarray) -> ProbedLayers:
        """Return accuracies of layers that share a network's view of the images."""
        noise = draw.standard_normal((len(levels), images), dtype=np.float32)
        hit = difficulty + own + noise < scatter * ndtri(np.clip(levels, 0.02, 0.98))[:, None]
        test = hit.mean(1)
        validation = draw.binomial(VALIDATION_IMAGES, np.clip(levels, 0.02, 0.98)) / VALIDATION_IMAGES
        found = ProbedLayers(tuple(test.tolist()), tuple(validation.tolist()), int(validation.argmax()))
        arrays[id(found)] = hit
        return found

    baseline = probed(np.array([BASELINE]), np.zeros(images))
    trials, shifts = list[Trial](), Shifts(scale, spread, world, draw)
    for architecture in scale.architectures:
        shift, loss_shift = shifts.results[architecture]
        own = spread.taste * draw.normal(size=images)
        for seed in range(scale.seeds):
            seeds = spread.accuracy.seeds
            noise = draw.normal(0, seeds) + draw.normal(0, OF_LAYERS * seeds, architecture[2] + 1)
            noise += shifts.layers(architecture)
            levels = LEVEL + (accuracies(world, architecture, POINTS[scale_name]) + shift + noise) / 100
            loss = losses(world, architecture, EFFECTS["nats"]) + loss_shift
            probes = PoolProbes(probed(levels, own), baseline, baseline, baseline, CHANCE)
            loss += draw.normal(0, spread.loss.seeds)
            found = measurements(world, architecture[0], draw, spread)
            for error, value in zip(COLOR_ERRORS, shifts.colors[architecture], strict=True):
                found["color_error"][error] += value
            trials.append(Trial(*architecture, seed, loss, {"mean": probes}, found))
    evidence = SimulatedEvidence(trials, "mean", groups)
    evidence.arrays = arrays
    return evidence


class Shifts:
    """What is added to the results of each architecture by chance, the same over seeds."""

    def __init__(self, scale: Scale, spread: Spread, world: str, draw: np.random.Generator):
        none = world in ("none", *OF_SINGLE_NETWORKS)
        others = draw.spawn(1)[0]  # so that the draws of accuracies and losses do not depend on these
        results = [spread.accuracy, spread.loss]
        colors = [getattr(spread, name) for name in COLOR_ERRORS]
        ends = [spread.first_layer, spread.last_layer]
        self.results = _drawn(scale, [] if none else results, 2, world, draw)
        self.colors = _drawn(scale, [] if none else colors, 3, world, others)
        self._ends = _drawn(scale, ends if world == "f" else [], 2, world, others)

    def layers(self, architecture: Architecture) -> np.ndarray:
        """Return what is added to each layer, in points: to the first and the last ones of convolutions."""
        found = np.zeros(architecture[2] + 1)
        if architecture[0] == "conv" and architecture[2] > 1:
            found[[0, -1]] = self._ends[architecture]
        return found


def _drawn(
    scale: Scale, components: Sequence[Components], count: int, world: str, draw: np.random.Generator
) -> dict[Architecture, np.ndarray]:
    """Return a random shift for each of the components, by architecture; `count` zeros without components."""
    every = scale.architectures
    if not components:
        return dict.fromkeys(every, np.zeros(count))
    networks = np.array([each.networks for each in components])
    encodings = np.array([each.encodings for each in components])
    if world == "encodings":  # these alone; where none are given, as much as networks differ
        encodings, networks = (encodings if encodings.any() else networks), np.zeros(count)
    cells = {(block, encoding): draw.normal(size=count) * encodings for block, encoding, _ in every}
    return {each: cells[each[:2]] + draw.normal(size=count) * networks for each in every}


def _settings(name: str, spread: Spread) -> dict[str, Any]:
    scale = SCALES[name]
    counts = {"seeds": scale.seeds, "networks": len(scale.architectures), "test_images": NUM_IMAGES[name]}
    effects = {"points": POINTS[name], "points per doubling": POINTS[name] / 2, **EFFECTS}
    return {**counts, "effects": effects, "spread": asdict(spread)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    about = "studies of each world and scale; twice as many without an effect"
    parser.add_argument("--studies", type=int, default=100, help=about)
    given = parser.parse_args()
    found = [row for scale in SPREADS for row in rows(scale, given.studies)]
    settings = {name: _settings(name.split(",", maxsplit=1)[0], spread) for name, spread in SPREADS.items()}
    versions = {"python": platform.python_version(), "numpy": np.__version__}
    record = {**versions, "scales": settings, "worlds": found}
    RESULT.write_text(json.dumps(record, indent=2) + "\n")


def rows(scale: str, studies: int) -> Iterator[dict[str, Any]]:
    """Simulate the studies of each world of a scale and count their verdicts."""
    for index, world in enumerate(WORLDS):
        draw = np.random.default_rng([list(SPREADS).index(scale), index])
        count = studies if world in LETTERS else 2 * studies
        results = [evaluate_claims(simulated_study(scale, world, draw)) for _ in range(count)]
        verdicts = {
            letter: Counter(claim.verdict for claims in results for claim in claims if claim.letter == letter)
            for letter in (LETTERS if world not in LETTERS else (world,))
        }
        refuted = sum(any(claim.verdict == "does not hold" for claim in claims) for claims in results)
        row = {"scale": scale, "world": world, "studies": count, "any_refuted": refuted}
        row["verdicts"] = {key: dict(value) for key, value in verdicts.items()}
        print(json.dumps(row), flush=True)
        yield row


if __name__ == "__main__":
    main()
