"""Shuffled labels are at chance, the gain is paired, components of pixels are scikit-learn's."""

import weakref
from dataclasses import replace
from statistics import mean, stdev

import numpy as np
import pytest
import torch
from scipy import stats
from scipy.linalg import subspace_angles

from isopix.core.types import Images
from isopix.probing import baselines
from isopix.probing.baselines import (
    NUM_PERMUTATIONS,
    PixelComponents,
    probe_with_baselines,
    raw_pixels,
    shuffle_labels,
    shuffled_label_baseline,
)
from isopix.probing.probe import evaluate_probe
from isopix.probing.splits import FeatureSplits
from tests.unit.probing.cases import CONFIG, CPU, METHOD, easy, noise, run

SEEDS = 8


def test_shuffled_labels_are_the_same_labels_in_another_order() -> None:
    splits = easy()
    baseline = shuffle_labels(splits, seed=0)
    for name in ("train", "validation"):
        ours, theirs = getattr(baseline, name).labels, getattr(splits, name).labels
        assert torch.equal(ours.bincount(), theirs.bincount())
        assert torch.equal(getattr(baseline, name).features, getattr(splits, name).features)
    assert torch.equal(baseline.test.labels, splits.test.labels)
    orders = {tuple(shuffle_labels(splits, 0, i).train.labels.tolist()) for i in range(NUM_PERMUTATIONS)}
    assert len(orders - {tuple(splits.train.labels.tolist())}) == NUM_PERMUTATIONS


def test_the_interval_of_shuffled_labels_spans_permutations_and_resamples() -> None:
    splits = easy()
    alone = [run(shuffle_labels(splits, 0, number)).best for number in range(NUM_PERMUTATIONS)]
    averaged = shuffled_label_baseline(splits, METHOD, CONFIG, device=CPU).best
    between = stdev(score.test_accuracy for score in alone)
    within = mean((score.interval[1] - score.interval[0]) ** 2 for score in alone) ** 0.5 / 2 / 1.96
    half = 1.96 * (between**2 + within**2) ** 0.5
    assert averaged.test_accuracy == pytest.approx(mean(score.test_accuracy for score in alone))
    assert averaged.interval == pytest.approx((averaged.test_accuracy - half, averaged.test_accuracy + half))
    assert averaged.fit["objective"] == pytest.approx(mean(score.fit["objective"] for score in alone))


def test_one_networks_features_are_held_at_a_time() -> None:
    held: list[weakref.ref[torch.Tensor]] = []

    def read() -> FeatureSplits:
        assert all(features() is None for features in held)
        splits = easy()
        held.append(weakref.ref(splits.train.features))
        return splits

    probe_with_baselines(read, {"one": read, "another": read}, METHOD, CONFIG, device=CPU)
    assert len(held) == 3


def test_the_gain_is_over_the_best_baseline_on_the_same_images() -> None:
    splits = easy()
    weak, weaker = (
        splits.map(lambda split, by=by: replace(split, features=split.features + by * noise(split)))
        for by in (1, 8)
    )
    read = {"untrained": lambda: weaker, "raw pixels": lambda: weak}
    found = probe_with_baselines(lambda: splits, read, METHOD, CONFIG, device=CPU)
    own, other = (
        evaluate_probe(each, METHOD, CONFIG, device=CPU).correct[0].numpy() for each in (splits, weak)
    )
    best = found.baselines["raw pixels"].best
    assert best.test_accuracy > found.baselines["untrained"].best.test_accuracy
    assert found.gain is not None
    assert found.gain.baseline == "raw pixels"
    assert found.gain.difference == pytest.approx(found.network.best.test_accuracy - best.test_accuracy)
    expected = stats.bootstrap(
        (own, other), lambda a, b, axis: a.mean(axis) - b.mean(axis), paired=True, method="percentile", rng=0
    ).confidence_interval
    assert found.gain.interval == pytest.approx((expected.low, expected.high), abs=0.02)


def colors(count: int = 200, side: int = 6) -> Images:
    """Smooth random color images: a spectrum that falls, as that of natural images."""
    draw = torch.Generator().manual_seed(0)
    noise = torch.randn(count, 3, side, side, generator=draw).cumsum(2).cumsum(3)
    return (128 + 20 * noise).clamp(0, 255).to(torch.uint8)


@pytest.mark.parametrize("count", [1, 8, 32])
def test_components_span_what_those_of_numpy_span(count: int) -> None:
    images = colors()
    x = raw_pixels(images)[0].double().numpy()
    _, scales, rows = np.linalg.svd(x - x.mean(0), full_matrices=False)
    found = PixelComponents.fit(images, count)
    assert np.rad2deg(subspace_angles(found.components.double().numpy(), rows[:count].T)).max() < 0.1
    projected = found.project(raw_pixels(images))[0].double().numpy()
    assert np.linalg.norm(projected, axis=0) == pytest.approx(scales[:count], rel=1e-4)


def test_components_of_rounding_errors_are_left_out() -> None:
    gray = colors()[:, :1].expand(-1, 3, -1, -1).contiguous()  # 36 directions of 108 pixel values
    assert PixelComponents.fit(gray, 100).components.shape == (108, 36)
    assert PixelComponents.fit(gray[:10], 100).components.shape == (108, 9)
    equal = colors(1).expand(20, -1, -1, -1)
    assert PixelComponents.fit(equal, 4).project(raw_pixels(equal)).abs().max() < 1e-5
    assert PixelComponents.fit(gray, 108) is None


def test_the_fit_is_of_evenly_spread_images_and_the_same_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = (PixelComponents.fit(colors(), 8) for _ in range(2))
    assert first.identity() == second.identity() != PixelComponents.fit(colors(), 7).identity()
    monkeypatch.setattr(baselines, "PCA_IMAGES", 3)
    images = colors(9)
    assert torch.equal(PixelComponents.fit(images, 2).mean, raw_pixels(images[[0, 4, 8]])[0].mean(0))
