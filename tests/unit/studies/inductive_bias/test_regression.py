"""Regressions agree with textbook ones, cover the truth at their rate, and are None where nothing decides."""

from itertools import product

import numpy as np
import pytest
from scipy import stats

from isopix.plots.study import MeanStd, TrialGroup
from isopix.studies.inductive_bias import regression

BLOCKS = {"conv": 0.5, "mixer": 0.42, "transformer-1": 0.3}
ENCODINGS = {"pix2vec": 0.0, "fourier": 0.02, "continuous": 0.05}
SLOPE = -0.08


def group(block: str, encoding: str, depth: int, loss: float, accuracy: float) -> TrialGroup:
    return TrialGroup(block, encoding, depth, MeanStd(loss, 0.0, 1), MeanStd(accuracy, 0.0, 1), ())


def study(noise: float, seed: int = 0) -> list[TrialGroup]:
    """Accuracy is a sum of what block, encoding and loss give, and noise."""
    draw = np.random.default_rng(seed)
    found = []
    for block, encoding, depth in product(BLOCKS, ENCODINGS, (1, 3, 6)):
        loss = 3.2 - 4 * (BLOCKS[block] - 0.3) - 0.1 * np.log2(depth) + draw.normal(0, 0.1)
        accuracy = BLOCKS[block] + ENCODINGS[encoding] + SLOPE * loss + draw.normal(0, noise)
        found.append(group(block, encoding, depth, loss, accuracy))
    return found


def test_without_noise_the_encodings_worth_is_found_exactly() -> None:
    found = regression.at_fixed_loss(study(0), "continuous", "pix2vec")
    assert found is not None
    assert found[:3] == pytest.approx((0.05, 0.05, 0.05))
    assert found.groups == 27


def test_the_interval_holds_the_truth_as_often_as_it_says() -> None:
    held = []
    for seed in range(400):
        found = regression.at_fixed_loss(study(0.03, seed), "fourier", "pix2vec")
        assert found is not None
        held.append(found.low <= 0.02 <= found.high)
    assert 0.92 <= np.mean(held) <= 0.98


def test_a_fit_of_one_line_is_scipys() -> None:
    x, y = np.random.default_rng(0).normal(size=(2, 9))
    theirs = stats.linregress(x, y)
    found = regression.combination(np.column_stack([np.ones(9), x]), y, np.array([0.0, 1.0]))
    assert found is not None
    half = stats.t.ppf(0.975, 7) * theirs.stderr
    assert found[:3] == pytest.approx((theirs.slope, theirs.slope - half, theirs.slope + half))


@pytest.mark.parametrize(
    "groups",
    [
        [each for each in study(0.01) if each.encoding != "pix2vec"],
        study(0.01)[:1] + study(0.01)[4:5],  # two groups, and more unknowns than that
        [],
    ],
    ids=["missing", "few", "none"],
)
def test_what_is_not_determined_is_not_told(groups: list[TrialGroup]) -> None:
    assert regression.at_fixed_loss(groups, "continuous", "pix2vec") is None


def test_blocks_that_share_no_encoding_cannot_compare_encodings() -> None:
    pairs = {"conv": "pix2vec", "mixer": "continuous"}
    apart = [each for each in study(0.01) if pairs.get(each.block) == each.encoding]
    assert regression.at_fixed_loss(apart, "continuous", "pix2vec") is None


def test_a_doubling_of_depth_is_worth_what_it_adds() -> None:
    architectures = product(BLOCKS, ENCODINGS, (1, 3, 6, 12))
    deep = [group(*kind, loss=len(kind[0]) - 0.2 * np.log2(kind[2]), accuracy=0.5) for kind in architectures]
    found = regression.effect_of_doubling_depth(deep, lambda each: each.loss.mean)
    assert found is not None
    assert found[:3] == pytest.approx((-0.2, -0.2, -0.2))
    shallow = [each for each in deep if each.depth == 3]
    assert regression.effect_of_doubling_depth(shallow, lambda each: each.loss.mean) is None


def test_loss_and_accuracy_agree_where_one_follows_the_other() -> None:
    found = regression.loss_and_accuracy(
        [group("conv", "fourier", 1, 3.0 - x, float(x**3)) for x in range(7)]
    )
    assert found is not None
    assert found.spearman.rho == pytest.approx(-1)
    assert -1 < found.pearson.rho < -0.9
    assert regression.loss_and_accuracy(study(0)[:4]) is None
