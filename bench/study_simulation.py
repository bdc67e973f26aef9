"""Simulates studies of inductive biases and counts false refutations and missed claims.

python bench/study_simulation.py              # writes bench/results/study-simulation.json; half an hour
python bench/study_simulation.py --studies 20 # quick

Each simulated study has the networks, seeds and test images of a scale. Accuracies vary with the network's
kind (independently), with the seed of each network and layer, and with the test images, which differ in
difficulty and are shared by all networks. Worlds: `none`, no difference between any networks; `mixed`, none
on average, but kinds of networks differ by chance; `encodings`, the same where the encodings of a block
differ and its depths do not; and for each claim one in which it is true by the smallest
difference that matters at its scale. Claims d, g, h and i are of single networks: where kinds differ by
chance, these do differ, so that refuting the claims is right.

Scales named `…, measured` are simulated with all spreads of their finished study, also that of the blocks'
differences over encodings.
"""

import argparse
import json
import math
import platform
from collections import Counter
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import ndtri
from study_spreads import Spread, measured_spread

from isopix.studies.claim_tests import ClaimResult
from isopix.studies.inductive_bias.claims import CLAIMS, evaluate_claims
from isopix.studies.inductive_bias.evidence import StudyEvidence, Term
from isopix.studies.inductive_bias.grid import SCALES, Scale
from isopix.studies.inductive_bias.trials import Architecture, PoolProbes, ProbedLayers, Trial

RESULT = Path(__file__).parent / "results" / "study-simulation.json"
LETTERS = tuple(claim.letter for claim in CLAIMS)
NUM_IMAGES = {"tiny": 1350, "small": 10_000, "paper": 10_000}
GROUP_SIZE = {
    "tiny": 3,
    "small": 1,
    "paper": 1,
}  # translated digits are placed three times in the test images
OF_SINGLE_NETWORKS = ("d", "g", "h", "i")  # claims whose networks differ by exactly the stated effect
BASELINE, CHANCE = 0.35, 0.1
LEVEL = 0.45  # of accuracy
VALIDATION_IMAGES = 2000


SPREADS = {  # those of seeds and networks are near the measured ones
    "tiny": Spread(seeds=2.5, networks=3.0, loss_seeds=0.017, loss_networks=0.03),
    "small": Spread(seeds=0.7, networks=1.5, loss_seeds=0.017, loss_networks=0.04),
    "paper": Spread(seeds=0.7, networks=1.5, loss_seeds=0.017, loss_networks=0.04),
    "tiny, measured": measured_spread("study-tiny"),
    "small, measured": measured_spread("study-small"),
}


class SimulatedEvidence(StudyEvidence):
    """Evidence whose per-image correctness is given as arrays and not packed."""

    arrays: dict[int, np.ndarray]

    def _correct(self, term: Term) -> np.ndarray:
        found: np.ndarray = self.arrays[id(term.probed)][term.read_layer]
        return found


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
    """Return the true loss in nats."""
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


def measurements(
    world: str, block: str, draw: np.random.Generator, effects: dict[str, float]
) -> dict[str, Any]:
    """Return distance preservation and color errors."""
    rank = {"conv": 2, "mixer": 1}.get(block, 0)
    preservation = 0.3 + effects[""] * rank * (world == "i") + draw.normal(0, 0.05)
    error = effects["% of range"] / 100 * (2 - rank) * (world == "j")
    misplaced = effects["%"] / 100 * (rank == 1) * (world == "j")
    return {
        "distance_preservation": [preservation] * 3,
        "color_error": {
            "mean_absolute": 0.1 + error + draw.normal(0, 0.005),
            "histogram": 0.05 + error + draw.normal(0, 0.005),
            "misplaced_fraction": 0.5 + misplaced + draw.normal(0, 0.02),
        },
    }


def simulate(name: str, world: str, draw: np.random.Generator) -> list[ClaimResult]:
    """Return the claims of one simulated study, of a scale and its spreads."""
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
    trials, measured = list[Trial](), {}
    for architecture, (shift, loss_shift) in _kinds(scale, spread, world, draw).items():
        own = spread.taste * draw.normal(size=images)
        for seed in range(scale.seeds):
            noise = draw.normal(0, spread.seeds) + draw.normal(0, 0.3 * spread.seeds, architecture[2] + 1)
            levels = LEVEL + (accuracies(world, architecture, scale.effect) + shift + noise) / 100
            loss = losses(world, architecture, scale.effects["nats"]) + loss_shift
            probes = PoolProbes(probed(levels, own), baseline, baseline, baseline, CHANCE)
            loss += draw.normal(0, spread.loss_seeds)
            trials.append(Trial(*architecture, seed=seed, loss=loss, probes={"mean": probes}))
            measured[architecture, seed] = measurements(world, architecture[0], draw, scale.effects)
    evidence = SimulatedEvidence(trials, measured, "mean", scale.effects, groups)
    evidence.arrays = arrays
    return evaluate_claims(evidence)


def _kinds(
    scale: Scale, spread: Spread, world: str, draw: np.random.Generator
) -> dict[Architecture, tuple[float, float]]:
    """Return the random shifts of accuracy and loss of each architecture."""
    every = scale.architectures
    if world in ("none", *OF_SINGLE_NETWORKS):
        return dict.fromkeys(every, (0.0, 0.0))
    networks = np.array([spread.networks, spread.loss_networks])
    encodings = np.array([spread.encodings, spread.loss_encodings])
    if world == "encodings":  # these alone; where none are given, as much as networks differ
        encodings, networks = (encodings if encodings.any() else networks), np.zeros(2)
    cells = {(block, encoding): draw.normal(size=2) * encodings for block, encoding, _ in every}
    shifts = {each: cells[each[:2]] + draw.normal(size=2) * networks for each in every}
    return {each: (float(accuracy), float(loss)) for each, (accuracy, loss) in shifts.items()}


def _settings(name: str, spread: Spread) -> dict[str, Any]:
    scale = SCALES[name]
    counts = {
        "seeds": scale.seeds,
        "networks": len(scale.architectures),
        "test_images": NUM_IMAGES[name],
    }
    return {**counts, "effects": scale.effects, "spread": vars(spread)}


def main() -> None:
    """Simulate the studies and write the counts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--studies",
        type=int,
        default=100,
        help="studies of each world and scale; twice as many without an effect",
    )
    parser.add_argument("--out", type=Path, default=RESULT)
    given = parser.parse_args()
    worlds, found = ("none", "mixed", "encodings", *LETTERS), []
    for scale, world in product(SPREADS, worlds):
        draw = np.random.default_rng([list(SPREADS).index(scale), worlds.index(world)])
        count = given.studies if world in LETTERS else 2 * given.studies
        studies = [simulate(scale, world, draw) for _ in range(count)]
        verdicts = {
            letter: Counter(claim.verdict for study in studies for claim in study if claim.letter == letter)
            for letter in (LETTERS if world not in LETTERS else (world,))
        }
        refuted = sum(any(claim.verdict == "does not hold" for claim in study) for study in studies)
        row = {"scale": scale, "world": world, "studies": count, "any_refuted": refuted}
        found.append({**row, "verdicts": {key: dict(value) for key, value in verdicts.items()}})
        print(json.dumps(found[-1]), flush=True)
    settings = {name: _settings(name.split(",", maxsplit=1)[0], spread) for name, spread in SPREADS.items()}
    record = {
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scales": settings,
        "worlds": found,
    }
    given.out.write_text(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()
