"""Regressions agree with textbook ones, cover the truth at their rate, and are None where nothing decides."""

import math
from collections.abc import Callable, Sequence
from itertools import product

import numpy as np
import pytest
from scipy import stats

from isopix.studies.inductive_bias import contrasts
from isopix.studies.inductive_bias.evidence import StudyEvidence, correct_images
from isopix.studies.inductive_bias.results import Trial
from tests.unit.studies.inductive_bias.worlds import EFFECTS, probed, trial

BLOCKS = {"conv": 0.5, "mixer": 0.42, "transformer-1": 0.3}
ENCODINGS = {"pix2vec": 0.0, "fourier": 0.02, "continuous": 0.05}
SLOPE = -0.08


def study(noise: float, seed: int = 0, images: int = 0) -> list[Trial]:
    """Accuracy is a sum of what block, encoding and loss give, and of noise; two equal seeds."""
    draw, found = np.random.default_rng(seed), []
    for number, (block, encoding, depth) in enumerate(product(BLOCKS, ENCODINGS, (1, 3, 6))):
        loss = 3.2 - 4 * (BLOCKS[block] - 0.3) - 0.1 * np.log2(depth) + draw.normal(0, 0.1)
        accuracy = BLOCKS[block] + ENCODINGS[encoding] + SLOPE * loss + draw.normal(0, noise)
        network = probed([accuracy], images=images, seed=number)
        found += [trial((block, encoding, depth), each, loss, network) for each in range(2)]
    return found


def evidence(trials: Sequence[Trial]) -> StudyEvidence:
    return StudyEvidence(trials, "mean", EFFECTS)


def test_without_noise_the_encodings_worth_and_the_slope_are_found_exactly() -> None:
    found = contrasts.at_fixed_loss(evidence(study(0)), "continuous", "pix2vec").estimate
    assert found.mean == pytest.approx(5)
    assert found.half_width() < 1e-6
    slope = contrasts.slope_on_loss(evidence(study(0))).estimate
    assert slope.mean == pytest.approx(8)


def test_the_interval_holds_the_truth_as_often_as_it_says() -> None:
    held = []
    for seed in range(300):
        found = contrasts.at_fixed_loss(evidence(study(0.03, seed)), "fourier", "pix2vec").estimate
        held.append(abs(found.mean - 2) <= found.half_width())
    assert 0.92 <= np.mean(held) <= 0.98


def test_a_slope_within_one_block_and_encoding_is_scipys() -> None:
    draw, trials = np.random.default_rng(0), list[Trial]()
    for number in range(9):
        loss, accuracy = 3 + 0.1 * number, 0.5 + 0.05 * draw.normal()
        trials += [trial(("conv", "pix2vec", number), seed, loss, probed([accuracy])) for seed in range(2)]
    own = trials[::2]
    theirs = stats.linregress(
        [each.loss for each in own], [100 * each.probes["mean"].network.test_accuracy for each in own]
    )
    found = contrasts.slope_on_loss(evidence(trials)).estimate
    assert found.mean == pytest.approx(-theirs.slope)
    assert found.half_width() == pytest.approx(stats.t.ppf(0.975, 7) * theirs.stderr)


def test_test_images_add_their_error_by_the_weight_of_each_network() -> None:
    """Against the bootstrap over the images that all networks share."""
    trials = study(0.01, images=800)
    found = contrasts.at_fixed_loss(evidence(trials), "continuous", "pix2vec").estimate
    own, draw = trials[::2], np.random.default_rng(0)
    correct = np.array([correct_images(each.probes["mean"].network, 0) for each in own])
    kinds = [[*(each.block == b for b in BLOCKS), *(each.encoding == e for e in ENCODINGS)] for each in own]
    design = np.column_stack([kinds, [each.loss for each in own]])
    fitted = [
        np.linalg.lstsq(design, 100 * correct[:, draw.integers(0, 800, 800)].mean(1), rcond=None)[0]
        for _ in range(1000)
    ]
    spread = np.std([each[5] - each[3] for each in fitted])
    images = {source.name: source.standard_error for source in found.sources}["images"]
    assert images == pytest.approx(spread, rel=0.1)


APART = {"conv": "pix2vec", "mixer": "continuous"}  # blocks that share no encoding


@pytest.mark.parametrize(
    "kept",
    [lambda t: t.encoding != "pix2vec", lambda t: t.seed == 0, lambda t: APART.get(t.block) == t.encoding],
)
def test_what_is_not_determined_is_not_told(kept: Callable[[Trial], bool]) -> None:
    trials = list(filter(kept, study(0.01)))
    assert contrasts.at_fixed_loss(evidence(trials), "continuous", "pix2vec").estimate is None
    assert contrasts.rank_correlation(evidence(trials[:8]), trials[:8]).estimate is None


def test_the_rank_correlation_is_scipys_on_fishers_scale() -> None:
    trials = study(0.02)
    found = contrasts.rank_correlation(evidence(trials), trials).estimate
    own = trials[::2]
    theirs = stats.spearmanr(
        [each.loss for each in own], [each.probes["mean"].network.test_accuracy for each in own]
    )
    assert math.tanh(found.mean) == pytest.approx(-theirs.statistic)
