"""Controls stand beside every network, and shuffled labels score chance."""

import json
import weakref
from dataclasses import replace
from statistics import mean, stdev

import pytest
import torch

from isopix.core import config
from isopix.probe import baselines
from isopix.probe.baselines import PERMUTATIONS, chance, examine, shuffled
from isopix.probe.features import extract, raw_pixels
from isopix.probe.probe import Splits, probe
from isopix.probe.results import Evidence
from tests.unit.probe.cases import CPU, DEPTH, QUICK, cut, digits, easy, network

SEEDS = 8


def test_shuffled_labels_are_the_same_labels_in_another_order():
    splits = easy()
    control = shuffled(splits, seed=0)
    for name in ("train", "validation"):
        ours, theirs = getattr(control, name).labels, getattr(splits, name).labels
        assert torch.equal(ours.bincount(), theirs.bincount())
        assert not torch.equal(ours, theirs)
        assert torch.equal(getattr(control, name).features, getattr(splits, name).features)
    assert torch.equal(control.test.labels, splits.test.labels)


def test_every_permutation_is_another():
    orders = [shuffled(easy(), 0, number).train.labels.tolist() for number in range(PERMUTATIONS)]
    assert len({tuple(order) for order in orders}) == PERMUTATIONS


@pytest.fixture(scope="module")
def by_chance() -> list[baselines.LayerScore]:
    """The control of a layer that tells digits well, for some seeds."""
    images, labels = digits()
    splits = cut(extract(network(), images)[1:2], labels, 900, 300)
    return [chance(splits, replace(QUICK, seed=seed), device=CPU).score for seed in range(SEEDS)]


def test_shuffled_labels_score_chance_over_seeds(by_chance: list[baselines.LayerScore]):
    accuracies = [score.test for score in by_chance]
    assert abs(mean(accuracies) - 0.1) < 3 * stdev(accuracies) / SEEDS**0.5


def test_the_interval_of_shuffled_labels_covers_chance(by_chance: list[baselines.LayerScore]):
    assert all(0 < score.low < 0.1 < score.high < 0.2 for score in by_chance)


def test_the_interval_of_shuffled_labels_spans_permutations_and_resamples():
    splits = easy()
    alone = [probe(shuffled(splits, 0, number), QUICK, device=CPU).score for number in range(PERMUTATIONS)]
    joined = chance(splits, QUICK, device=CPU).score
    between = stdev(score.test for score in alone)
    within = mean((score.high - score.low) ** 2 for score in alone) ** 0.5 / 2 / 1.96
    assert joined.test == pytest.approx(mean(score.test for score in alone))
    assert joined.high - joined.test == pytest.approx(1.96 * (between**2 + within**2) ** 0.5)
    assert joined.test - joined.low == pytest.approx(joined.high - joined.test)
    assert joined.gradient == max(score.gradient for score in alone)


def test_digits_are_read_far_above_chance_and_shuffled_labels_are_not():
    images, labels = digits()
    trained = cut(extract(network(), images), labels, 900, 300)
    pixels = cut(raw_pixels(images), labels, 900, 300)
    evidence = examine(lambda: trained, {"raw pixels": lambda: pixels}, protocol=QUICK, device=CPU)
    assert len(evidence.network.layers) == DEPTH + 1
    assert evidence.network.score.test > 0.4
    assert evidence.controls["raw pixels"].score.test > 0.9
    assert (
        evidence.controls["shuffled labels"].score.low < 0.1 < evidence.controls["shuffled labels"].score.high
    )
    assert list(evidence.controls) == ["raw pixels", "shuffled labels"]


def test_one_networks_features_are_held_at_a_time():
    held: list[weakref.ref[torch.Tensor]] = []

    def read() -> Splits:
        assert all(features() is None for features in held)
        splits = easy()
        held.append(weakref.ref(splits.train.features))
        return splits

    examine(read, {"one": read, "another": read}, protocol=QUICK, device=CPU)
    assert len(held) == 3


def test_evidence_is_json_and_back():
    splits = easy()
    evidence = examine(lambda: splits, {"the same": lambda: splits}, protocol=QUICK, device=CPU)
    assert config.from_dict(Evidence, json.loads(json.dumps(evidence.to_dict()))) == evidence
