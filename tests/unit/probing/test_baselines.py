"""Every network has baselines, and shuffled labels are at chance level."""

import json
import weakref
from dataclasses import replace
from statistics import mean, stdev

import pytest
import torch
from scipy import stats

from isopix.probing import baselines
from isopix.probing.baselines import (
    NUM_PERMUTATIONS,
    probe_with_baselines,
    raw_pixels,
    shuffle_labels,
    shuffled_label_baseline,
)
from isopix.probing.features import extract_features
from isopix.probing.probe import fit_probe
from isopix.probing.results import ProbeReport
from isopix.probing.splits import FeatureSplits
from tests.unit.probing.cases import CPU, DEPTH, QUICK, cut, digits, easy, network, noise, stacked

SEEDS = 8


def test_shuffled_labels_are_the_same_labels_in_another_order():
    splits = easy()
    baseline = shuffle_labels(splits, seed=0)
    for name in ("train", "validation"):
        ours, theirs = getattr(baseline, name).labels, getattr(splits, name).labels
        assert torch.equal(ours.bincount(), theirs.bincount())
        assert not torch.equal(ours, theirs)
        assert torch.equal(getattr(baseline, name).features, getattr(splits, name).features)
    assert torch.equal(baseline.test.labels, splits.test.labels)


def test_every_permutation_is_different():
    orders = [shuffle_labels(easy(), 0, number).train.labels.tolist() for number in range(NUM_PERMUTATIONS)]
    assert len({tuple(order) for order in orders}) == NUM_PERMUTATIONS


@pytest.fixture(scope="module")
def by_chance() -> list[baselines.LayerScore]:
    """The baseline of a layer that predicts digits well, for some seeds."""
    images, labels = digits()
    splits = cut(extract_features(network(), images)[1:2], labels, 900, 300)
    return [
        shuffled_label_baseline(splits, replace(QUICK, seed=seed), device=CPU).best for seed in range(SEEDS)
    ]


def test_shuffled_labels_score_chance_over_seeds(by_chance: list[baselines.LayerScore]):
    accuracies = [score.test_accuracy for score in by_chance]
    assert abs(mean(accuracies) - 0.1) < 3 * stdev(accuracies) / SEEDS**0.5


def test_the_interval_of_shuffled_labels_covers_chance(by_chance: list[baselines.LayerScore]):
    assert all(0 < low < 0.1 < high < 0.2 for low, high in (score.interval for score in by_chance))


def test_the_interval_of_shuffled_labels_spans_permutations_and_resamples():
    splits = easy()
    alone = [
        fit_probe(shuffle_labels(splits, 0, number), QUICK, device=CPU).best
        for number in range(NUM_PERMUTATIONS)
    ]
    averaged = shuffled_label_baseline(splits, QUICK, device=CPU).best
    between = stdev(score.test_accuracy for score in alone)
    within = mean((score.interval[1] - score.interval[0]) ** 2 for score in alone) ** 0.5 / 2 / 1.96
    low, high = averaged.interval
    assert averaged.test_accuracy == pytest.approx(mean(score.test_accuracy for score in alone))
    assert high - averaged.test_accuracy == pytest.approx(1.96 * (between**2 + within**2) ** 0.5)
    assert averaged.test_accuracy - low == pytest.approx(high - averaged.test_accuracy)
    assert averaged.grad_norm == max(score.grad_norm for score in alone)


def test_digits_are_far_above_chance_and_shuffled_labels_are_not():
    images, labels = digits()
    features = cut(extract_features(network(), images), labels, 900, 300)
    pixels = cut(raw_pixels(images), labels, 900, 300)
    report = probe_with_baselines(lambda: features, {"raw pixels": lambda: pixels}, config=QUICK, device=CPU)
    assert len(report.network.layers) == DEPTH + 1
    assert report.network.best.test_accuracy > 0.4
    assert report.baselines["raw pixels"].best.test_accuracy > 0.9
    low, high = report.baselines["shuffled labels"].best.interval
    assert low < 0.1 < high
    assert list(report.baselines) == ["raw pixels", "shuffled labels"]


def test_one_networks_features_are_held_at_a_time():
    held: list[weakref.ref[torch.Tensor]] = []

    def read() -> FeatureSplits:
        assert all(features() is None for features in held)
        splits = easy()
        held.append(weakref.ref(splits.train.features))
        return splits

    probe_with_baselines(read, {"one": read, "another": read}, config=QUICK, device=CPU)
    assert len(held) == 3


def test_report_is_json_and_back():
    splits = easy()
    report = probe_with_baselines(lambda: splits, {"the same": lambda: splits}, config=QUICK, device=CPU)
    assert ProbeReport.from_dict(json.loads(json.dumps(report.to_dict()))) == report


def test_the_gain_is_over_the_best_baseline_on_the_same_images():
    splits = easy()
    weak, weaker = (
        splits.map(
            lambda split, spread=spread: replace(split, features=split.features + spread * noise(split))
        )
        for spread in (1, 8)
    )
    read = {"untrained": lambda: weaker, "raw pixels": lambda: weak}
    found = probe_with_baselines(lambda: splits, read, config=QUICK, device=CPU)
    own, other = (
        baselines.evaluate_probe(each, QUICK, device=CPU).best_correct.numpy() for each in (splits, weak)
    )
    assert found.gain is not None
    assert found.gain.baseline == "raw pixels"
    best = found.baselines["raw pixels"].best
    assert best.test_accuracy > found.baselines["untrained"].best.test_accuracy
    assert found.gain.difference == pytest.approx(found.network.best.test_accuracy - best.test_accuracy)
    expected = stats.bootstrap(
        (own, other), lambda a, b, axis: a.mean(axis) - b.mean(axis), paired=True, method="percentile", rng=0
    ).confidence_interval
    assert found.gain.interval == pytest.approx((expected.low, expected.high), abs=0.02)
    assert ProbeReport.from_dict(json.loads(json.dumps(found.to_dict()))) == found


def test_which_images_are_correct_is_of_the_best_layer():
    splits = easy()
    weak = splits.map(lambda split: replace(split, features=split.features + 2 * noise(split)))
    both = baselines.evaluate_probe(stacked(weak, splits), QUICK, device=CPU)
    assert both.result.best_index == 1
    alone = baselines.evaluate_probe(splits, QUICK, device=CPU)
    assert both.correct.shape == (2, len(splits.test))
    assert torch.equal(both.best_correct, alone.correct[0])
    assert torch.equal(both.best_correct, both.correct[1])
    assert not torch.equal(both.correct[0], both.correct[1])
    assert both.best_correct.double().mean().item() == both.result.best.test_accuracy
