"""Baselines are at chance or span what those of NumPy span; votes over masks."""

import weakref
from collections import Counter
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from scipy import stats
from scipy.linalg import subspace_angles

from isopix.core.random import generator
from isopix.core.types import Images
from isopix.probing import baselines
from isopix.probing.baselines import PixelComponents, probe_with_baselines, raw_pixels
from isopix.probing.probe import FittedProbe, ProbeMethod, evaluate_probe, vote
from isopix.probing.splits import FeatureSplit, FeatureSplits
from isopix.storage.result import EnsembleAccuracy
from tests.unit.probing.cases import CONFIG, CPU, METHOD, METHODS, easy, noise, run


def test_one_networks_features_are_held_at_a_time() -> None:
    held: list[weakref.ref[torch.Tensor]] = []

    def read() -> FeatureSplits:
        assert all(features() is None for features in held)
        splits = easy()
        held.append(weakref.ref(splits.train.features))
        return splits

    probe_with_baselines(read, {"one": read, "another": read}, METHOD, CONFIG, device=CPU)
    assert len(held) == 3


def test_the_interval_of_a_gain_is_that_of_scipy_on_pairs_or_on_means_of_groups() -> None:
    """Four test images of each original, in an order of their own."""
    whole, worse = easy(), easy().map(lambda split: replace(split, features=noise(split)))
    count = len(whole.test) // 4 * 4
    whole, worse = (replace(each, test=each.test.select(slice(count))) for each in (whole, worse))
    groups = torch.arange(count) % (count // 4)
    own, other = (evaluate_probe(each, METHOD, CONFIG, device=CPU).correct[0] for each in (whole, worse))
    values = (own.double() - other.double()).numpy()
    one_group = torch.zeros(count, dtype=torch.long)
    for labels, expected in ((None, values), (groups, values.reshape(4, -1).mean(0)), (one_group, None)):
        given = replace(whole, test=replace(whole.test, groups=labels))
        others = {"noise": partial(replace, worse)}
        found = probe_with_baselines(partial(replace, given), others, METHOD, CONFIG, device=CPU).gain
        assert found is not None
        assert found.difference == pytest.approx(values.mean())
        interval = (-1, 1) if expected is None else stats.ttest_1samp(expected, 0).confidence_interval()
        assert found.interval == pytest.approx(tuple(interval))


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


each_method = pytest.mark.parametrize("method", METHODS, ids=lambda method: method.kind)


def views(count: int) -> FeatureSplits:
    """Test images in several views, each with other features set to 0."""
    splits = easy()
    draw = torch.Generator().manual_seed(1)

    def drop(split: FeatureSplit) -> FeatureSplit:
        kept = torch.rand(split.features.shape, generator=draw) > 0.4
        return replace(split, features=split.features * kept)

    return replace(
        splits, test=drop(splits.test), extra_views=tuple(drop(splits.test) for _ in range(count - 1))
    )


@each_method
def test_one_mask_is_the_single_prediction(method: ProbeMethod) -> None:
    plain = run(views(1), method).best
    masked = run(views(1), method, replace(CONFIG, mask_ensemble=1)).best
    assert plain.ensemble is None
    assert masked.ensemble == EnsembleAccuracy(plain.test_accuracy, plain.test_accuracy)
    assert replace(masked, ensemble=None) == plain


def test_only_a_most_frequent_prediction_wins_and_ties_are_broken_evenly() -> None:
    draw = torch.Generator().manual_seed(3)
    predictions = torch.randint(4, (5, 200), generator=draw)
    for image, winner in enumerate(vote(predictions, generator(0, "test")).tolist()):
        counts = Counter(predictions[:, image].tolist())
        assert counts[winner] == max(counts.values())
    tied = torch.tensor([0, 0, 2, 2, 5])[:, None].expand(-1, 4000)
    counts = vote(tied, generator(0, "test")).bincount(minlength=6).tolist()
    assert counts[0] + counts[2] == 4000
    assert abs(counts[0] - 2000) < 4 * 1000**0.5  # four standard deviations


def test_confident_predictions_outweigh_uncertain_ones_in_the_mean_alone() -> None:
    class Given(ProbeMethod):
        """Features that are probabilities."""

        kind = "given"

        def fit_layers(self, problem):
            yield FittedProbe(torch.ones(1), lambda features: features)

    train = FeatureSplit(torch.eye(2)[None], torch.arange(2))
    given = torch.tensor([[0.55, 0.45], [0.55, 0.45], [0.0, 1.0]])
    test, *others = (FeatureSplit(each[None, None], torch.tensor([1])) for each in given)
    splits = FeatureSplits(train, train, test, tuple(others))
    score = run(splits, Given(), replace(CONFIG, mask_ensemble=3)).best
    assert (score.test_accuracy, score.ensemble) == (0, EnsembleAccuracy(pytest.approx(1 / 3), 1))
