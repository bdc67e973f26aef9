"""Which trials are paired, the errors of their means, and regressions that agree with textbook ones."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from scipy import stats

from isopix.studies.inductive_bias import contrasts
from isopix.studies.inductive_bias.contrasts import NOT_ABOVE, accuracy_regime, difference, layer_range, loss
from isopix.studies.inductive_bias.evidence import StudyEvidence, correct_images, largest_design
from isopix.studies.inductive_bias.results import ProbedLayers, Trial
from tests.unit.studies.inductive_bias.worlds import CELLS, probed, trial, world


def evidence(trials: Sequence[Trial], groups: np.ndarray | None = None) -> StudyEvidence:
    return StudyEvidence(trials, "mean", groups)


@pytest.mark.parametrize(
    ("known", "seeds", "kinds"),
    [
        ({0: "abc", 1: "abc", 2: "ab"}, [0, 1], "abc"),
        ({0: "abcd", 1: "ab", 2: "ab", 3: "ab", 4: "ab"}, [0, 1, 2, 3, 4], "ab"),  # one seed has begun
        ({0: "abc", 1: "a"}, [0, 1], "a"),  # two seeds rather than more kinds
        ({0: "abc"}, [0], "abc"),
        ({0: ""}, [], ""),
    ],
)
def test_the_largest_complete_design_is_read(known: dict[int, str], seeds: list[int], kinds: str) -> None:
    assert largest_design({seed: list(own) for seed, own in known.items()}) == (seeds, list(kinds))


def test_pooled_noise_is_that_of_as_many_networks() -> None:
    draw, trials = np.random.default_rng(0), list[Trial]()
    for seed in range(4):
        for cell in CELLS:
            layers = (0.5 + 0.02 * draw.normal(size=cell[2] + 1)).tolist()
            trials.append(trial(cell, seed, 4 + 0.1 * draw.normal(), probed(layers)))
    made = evidence(trials)
    for networks in (2, 4):
        noise = made.noise(["conv", "mixer", "transformer-1"], made.layers, networks)
        assert noise.variance == pytest.approx(networks * 2.0**2, rel=0.2)
        assert noise.freedom == 3 * len(CELLS)
    losses = made.noise(["conv", "mixer", "transformer-1"], loss)
    assert losses.variance == pytest.approx(2 * 0.1**2, rel=0.3)


@pytest.mark.parametrize(("gain", "clear"), [(0.02, False), (0.03, True)])
def test_the_error_of_seeds_counts_twice(gain: float, clear: bool) -> None:
    """Seeds 3 points below to 3 above their mean have a standard error of 1.3 points."""
    trials = [
        trial(cell, seed, 4.0, probed([0.3 + gain + off] * (cell[2] + 1)), 0.3)
        for seed, off in enumerate((-0.03, -0.01, 0.01, 0.03))
        for cell in CELLS
        if cell[0] == "conv"
    ]
    assert (accuracy_regime(evidence(trials), ["conv"]) == "") == clear


@pytest.mark.parametrize(("images", "clear"), [(2, False), (9, True)])
def test_the_error_of_test_images_counts_twice(images: int, clear: bool) -> None:
    """All networks are right on the same images, and on k more than their baselines: the root of k errors."""
    network = probed([0.3 + images / 400] * 2, images=400)
    trials = [trial(("conv", "pix2vec", 1), seed, 4.0, network, 0.3) for seed in range(3)]
    first, other = correct_images(network, 0), correct_images(trials[0].probes["mean"].untrained, 0)
    assert (first != other).sum() == images
    assert (accuracy_regime(evidence(trials), ["conv"]) == "") == clear


@pytest.mark.parametrize(
    "better",
    [
        {"untrained": probed([0.6])},
        {"pixel_components": probed([0.6])},
        {"raw_pixels": probed([0.6]), "pixel_components": None},
    ],
)
def test_a_block_is_above_all_its_baselines_or_not_above(better: dict[str, ProbedLayers | None]) -> None:
    trials = []
    for seed in range(3):
        made = trial(("conv", "pix2vec", 1), seed, 4.0, probed([0.5, 0.5]), 0.3)
        probes = replace(made.probes["mean"], **better)
        trials.append(replace(made, probes={"mean": probes}))
    assert accuracy_regime(evidence(trials), ["conv"]) == NOT_ABOVE


def test_a_gain_is_clear_though_encodings_differ() -> None:
    """Gains of 30, 4 and 1 points: their mean is far below two standard errors over encodings, 18 points."""
    gains, draw, trials = {"pix2vec": 0.3, "fourier": 0.04, "continuous": 0.01}, np.random.default_rng(2), []
    for seed in range(4):
        for cell in [cell for cell in CELLS if cell[0] == "conv"]:
            level = 0.3 + gains[cell[1]] + 0.005 * draw.normal()
            trials.append(trial(cell, seed, 4.0, probed([level] * (cell[2] + 1)), 0.3))
    assert np.std([30, 4, 1], ddof=1) / 3**0.5 * 2 > 1.5 * np.mean([30, 4, 1])
    assert accuracy_regime(evidence(trials), ["conv"]) == ""


def test_a_difference_of_single_networks_has_the_noise_of_all() -> None:
    """One kind over four seeds: the error is that of all nine networks' losses, known with 2 x 27 degrees."""
    made = world(lambda a: [0.5] * (a[2] + 1), noise=0.05)
    found = evidence(made.trials)
    of_all = difference(found, ("mixer", "conv"), loss, only=("pix2vec", 3)).estimate
    ((name, error, freedom),) = of_all.sources
    variances = [
        np.var([each.loss for each in made.trials if each.architecture == cell], ddof=1)
        for cell in CELLS
        if cell[0] != "transformer-1"
    ]
    assert (name, freedom) == ("seeds", 3 * len(variances))
    assert error == pytest.approx(math.sqrt(2 * np.mean(variances) / 4))


def test_the_range_of_a_network_is_of_layers_that_other_seeds_choose() -> None:
    first = trial(("mixer", "pix2vec", 1), 0, 4.0, probed([0.2, 0.9]))
    other = trial(("mixer", "pix2vec", 1), 1, 4.0, probed([0.2, 0.9], validation=[0.9, 0.2]))
    terms = layer_range(evidence([first, other]), first)
    assert [(each.weight, each.value) for each in terms] == [(100, 0.2), (-100, 0.9)]


BLOCKS = {"conv": 0.5, "mixer": 0.42, "transformer-1": 0.3}
ENCODINGS = {"pix2vec": 0.0, "fourier": 0.02, "continuous": 0.05}
SLOPE = -0.08
WORTH = {"continuous": 1, "pix2vec": -1}


def study(noise: float, seed: int = 0, images: int = 0) -> list[Trial]:
    """Accuracy is a sum of what block, encoding and loss give, and of noise; two equal seeds."""
    draw, found = np.random.default_rng(seed), []
    for number, (block, encoding, depth) in enumerate(product(BLOCKS, ENCODINGS, (1, 3, 6))):
        loss = 3.2 - 4 * (BLOCKS[block] - 0.3) - 0.1 * np.log2(depth) + draw.normal(0, 0.1)
        accuracy = BLOCKS[block] + ENCODINGS[encoding] + SLOPE * loss + draw.normal(0, noise)
        network = probed([accuracy], images=images, seed=number)
        found += [trial((block, encoding, depth), each, loss, network) for each in range(2)]
    return found


def test_the_interval_holds_the_truth_as_often_as_it_says() -> None:
    held = []
    for seed in range(300):
        found = contrasts.at_equal_loss(evidence(study(0.03, seed)), {"fourier": 1, "pix2vec": -1}).estimate
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
    found = contrasts.at_equal_loss(evidence(trials), {"loss": -1}).estimate
    assert found.mean == pytest.approx(-theirs.slope)
    assert found.half_width() == pytest.approx(stats.t.ppf(0.975, 7) * theirs.stderr)


def test_test_images_add_their_error_by_the_weight_of_each_network() -> None:
    """Against the bootstrap over the images that all networks share."""
    trials = study(0.01, images=800)
    found = contrasts.at_equal_loss(evidence(trials), WORTH).estimate
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
def test_what_is_not_determined_is_unknown(kept: Callable[[Trial], bool]) -> None:
    trials = list(filter(kept, study(0.01)))
    assert contrasts.at_equal_loss(evidence(trials), WORTH).estimate is None
    assert contrasts.rank_correlation(evidence(trials[:8]), trials[:8]).estimate is None
