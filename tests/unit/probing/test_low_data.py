"""Each subset is probed alone, the layer is selected once, and no test label is used for it."""

from dataclasses import replace

import pytest
import torch
from sklearn.linear_model import LogisticRegression

from isopix.core.random import generator
from isopix.data.splits import balanced_subset
from isopix.probing.config import ProbeConfig
from isopix.probing.low_data import LowDataProtocol, probe_subsets
from isopix.probing.results import LowDataResult
from isopix.probing.splits import FeatureSplit, FeatureSplits

CPU = torch.device("cpu")
CONFIG = ProbeConfig(l2_grid=(0.01,), l2_extra=(), num_resamples=10)


def cloud(count: int, number: int) -> FeatureSplit:
    """Three layers: noise, one that separates three classes well, and one that separates them badly."""
    draw = generator(7, "cloud", number)
    labels = torch.arange(count) % 3
    centers = torch.randn(3, 8, generator=generator(7, "centers"))
    noise = torch.randn(3, count, 8, generator=draw)
    clear = torch.tensor([0.0, 2.0, 0.7])[:, None, None]
    return FeatureSplit(noise + clear * centers[labels], labels)


SPLITS = FeatureSplits(cloud(300, 0), cloud(120, 1), cloud(150, 2))
SUBSETS = [balanced_subset(SPLITS.train.labels, 5, generator(0, "subset", number)) for number in range(4)]


def found(splits: FeatureSplits) -> LowDataResult:
    return probe_subsets(splits, SUBSETS, 5, config=CONFIG, device=CPU)


def test_errors_are_scikit_learns_on_each_subset() -> None:
    errors = []
    for index in SUBSETS:
        features, labels = SPLITS.train.features[1, index].double(), SPLITS.train.labels[index]
        center, spread = features.mean(0), features.std(0, correction=0)
        theirs = LogisticRegression(C=1 / (0.01 * len(index)), tol=1e-8, max_iter=5000)
        theirs.fit((features - center) / spread, labels)
        test = (SPLITS.test.features[1].double() - center) / spread
        errors.append(1 - theirs.score(test, SPLITS.test.labels))
    ours = found(SPLITS)
    assert ours.layers == (1,)
    assert ours.errors == pytest.approx(errors, abs=1 / 150)
    assert ours.mean == pytest.approx(sum(errors) / 4, abs=1 / 150)
    assert (ours.num_train_images, ours.num_test_images) == (15, 150)


def test_std_is_that_of_one_subset() -> None:
    assert LowDataResult(4, 40, 150, (1,), (0.1, 0.2, 0.3)).std == pytest.approx(0.1)
    assert LowDataResult(4, 40, 150, (1,), (0.1,)).std == 0


def test_the_layer_does_not_depend_on_test_labels() -> None:
    test = SPLITS.test
    wrong = replace(SPLITS, test=FeatureSplit(test.features, (test.labels + 1) % 3))
    assert found(wrong).layers == found(SPLITS).layers


def test_images_outside_of_the_subsets_are_not_used() -> None:
    outside = torch.ones(300, dtype=torch.bool)
    outside[torch.cat(SUBSETS)] = False
    features = SPLITS.train.features.clone()
    features[:, outside] = 1e4
    assert found(replace(SPLITS, train=FeatureSplit(features, SPLITS.train.labels))) == found(SPLITS)


def test_a_percentage_is_of_each_class_rounded_up() -> None:
    labels = torch.tensor([0] * 41 + [1] * 9 + [2] * 100)
    drawn = LowDataProtocol((3, "5%"), 2).subsets(labels, seed=0)
    assert [labels[index].bincount().tolist() for index in drawn["5%"]] == [[3, 1, 5], [3, 1, 5]]
    assert [labels[index].bincount().tolist() for index in drawn[3]] == [[3, 3, 3], [3, 3, 3]]
    with pytest.raises(ValueError, match="labels is '101%'; allowed: a number of images of each class, or"):
        LowDataProtocol(("101%",), 1).subsets(labels, seed=0)
