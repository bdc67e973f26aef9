"""Nearest neighbours are scikit-learn's, in blocks or at once, and cheap enough to ask for on the way."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.neighbors import KNeighborsClassifier

from isopix.probe import knn
from isopix.probe.feature_splits import Split, standardised
from isopix.probe.features import extract, raw_pixels
from isopix.probe.knn import Knn, neighbours, shares
from isopix.probe.probe import probe
from isopix.probe.results import Protocol
from tests.unit.probe.cases import CPU, clusters, cut, digits, network

QUICK = Protocol(method=Knn(), resamples=200)


def theirs(points, labels, count):
    votes = KNeighborsClassifier(count, metric="cosine", weights=lambda far: np.exp((1 - far) / 0.07))
    return votes.fit(points.numpy(), labels.numpy())


@pytest.mark.parametrize("count", [1, 5, 200])
def test_shares_and_answers_are_scikit_learns(count):
    images, labels = digits()
    layers = standardised(cut(extract(network(), images), labels, 900, 300))
    for learnt, asked in zip(layers.train.features.double(), layers.test.features.double(), strict=True):
        own = shares(asked, learnt, layers.train.labels, counts=[200, count], classes=10)[1]
        reference = theirs(learnt, layers.train.labels, count)
        np.testing.assert_allclose(own.numpy(), reference.predict_proba(asked.numpy()), atol=1e-9)
        assert np.array_equal(own.argmax(-1).numpy(), reference.predict(asked.numpy()))


def test_blocks_change_nothing(monkeypatch):
    features, labels = clusters(300, 6, 3, spread=2.0)
    points, asked = features[0, :200], features[0, 200:]
    whole = shares(asked, points, labels[:200], counts=[20], classes=3)
    monkeypatch.setattr(knn, "BLOCK", 7)
    torch.testing.assert_close(shares(asked, points, labels[:200], counts=[20], classes=3), whole)


def test_the_number_is_chosen_on_validation_and_never_above_the_images():
    splits = cut(*clusters(300, 6, 3, spread=2.0))
    record = probe(splits, QUICK, device=CPU)
    accuracies = {
        count: probe(splits, replace(QUICK, method=Knn(neighbours=(count,))), device=CPU).score.validation
        for count in (10, 20, 50, 100, 120)
    }
    best = max(accuracies.values())
    assert record.score.validation == best
    assert record.score.neighbours == max(count for count in accuracies if accuracies[count] == best)
    assert (record.score.strength, record.score.objective, record.warnings) == (None, None, ())


def test_neighbours_on_the_way_are_those_of_the_probe():
    images, labels = digits()
    features = torch.cat([raw_pixels(images)[..., :64], raw_pixels(images)[..., 64:128]])
    splits = cut(features, labels, 300, 100)
    found = neighbours(splits.train, splits.test, count=20)
    record = probe(splits, replace(QUICK, method=Knn(neighbours=(20,))), device=CPU)
    assert found == [score.test for score in record.layers]


def test_neighbours_of_few_images_and_classes_far_apart():
    learnt = Split(torch.eye(3)[None], torch.tensor([7, 0, 7]))
    asked = Split(torch.eye(3)[None, :2], torch.tensor([7, 0]))
    assert neighbours(learnt, asked, count=1) == [1.0]
    assert neighbours(learnt, asked, count=20) == [1.0]


@pytest.mark.parametrize("wrong", [{"neighbours": ()}, {"neighbours": (0,)}, {"temperature": 0.0}])
def test_settings_that_cannot_be_are_refused(wrong):
    with pytest.raises(ValueError, match=f"^{next(iter(wrong))} .* must be"):
        Knn(**wrong)
