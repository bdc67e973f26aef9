"""Few labels: each subset is probed alone, the layer is chosen once, and no test label has a part in it."""

from dataclasses import replace

import pytest
import torch
from sklearn.linear_model import LogisticRegression

from isopix.core.random import generator
from isopix.data.splits import balanced_subset
from isopix.probe.feature_splits import Split, Splits
from isopix.probe.low_data import FewLabels, few_labels
from isopix.probe.results import Protocol

CPU = torch.device("cpu")
PROTOCOL = Protocol(strengths=(0.01,), weaker=(), resamples=10)


def cloud(count: int, number: int) -> Split:
    """Three layers: noise, one that tells three classes well, one that tells them badly."""
    draw = generator(7, "cloud", number)
    labels = torch.arange(count) % 3
    centres = torch.randn(3, 8, generator=generator(7, "centres"))
    noise = torch.randn(3, count, 8, generator=draw)
    clear = torch.tensor([0.0, 2.0, 0.7])[:, None, None]
    return Split(noise + clear * centres[labels], labels)


SPLITS = Splits(cloud(300, 0), cloud(120, 1), cloud(150, 2))
SUBSETS = [balanced_subset(SPLITS.train.labels, 5, generator(0, "subset", number)) for number in range(4)]


def found(splits: Splits) -> FewLabels:
    return few_labels(splits, SUBSETS, 5, protocol=PROTOCOL, device=CPU)


def test_errors_are_scikit_learns_on_each_subset() -> None:
    errors = []
    for index in SUBSETS:
        features, labels = SPLITS.train.features[1, index].double(), SPLITS.train.labels[index]
        centre, spread = features.mean(0), features.std(0, correction=0)
        theirs = LogisticRegression(C=1 / (0.01 * len(index)), tol=1e-8, max_iter=5000)
        theirs.fit((features - centre) / spread, labels)
        test = (SPLITS.test.features[1].double() - centre) / spread
        errors.append(1 - theirs.score(test, SPLITS.test.labels))
    ours = found(SPLITS)
    assert ours.layer == 1
    assert ours.errors == pytest.approx(errors, abs=1 / 150)
    assert ours.mean == pytest.approx(sum(errors) / 4, abs=1 / 150)
    assert (ours.images, ours.tested) == (15, 150)


def test_deviation_is_that_of_one_subset() -> None:
    assert FewLabels(4, 40, 150, 1, (0.1, 0.2, 0.3)).deviation == pytest.approx(0.1)
    assert FewLabels(4, 40, 150, 1, (0.1,)).deviation == 0


def test_the_layer_does_not_depend_on_test_labels() -> None:
    test = SPLITS.test
    wrong = replace(SPLITS, test=Split(test.features, (test.labels + 1) % 3))
    assert found(wrong).layer == found(SPLITS).layer


def test_images_outside_of_the_subsets_say_nothing() -> None:
    outside = torch.ones(300, dtype=torch.bool)
    outside[torch.cat(SUBSETS)] = False
    features = SPLITS.train.features.clone()
    features[:, outside] = 1e4
    assert found(replace(SPLITS, train=Split(features, SPLITS.train.labels))) == found(SPLITS)
