"""Each subset is probed alone; validation selects, and no test label does."""

from dataclasses import replace

import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from isopix.core.random import generator
from isopix.data.splits import balanced_subset
from isopix.probing.low_data import label_subsets, probe_subsets
from isopix.probing.methods import LbfgsProbe
from isopix.probing.splits import FeatureSplit, FeatureSplits
from tests.unit.probing.cases import CPU

ONE = LbfgsProbe(l2_grid=(0.01,))


def cloud(count: int, number: int) -> FeatureSplit:
    """Three layers: noise, one that separates three classes well, and one that separates them badly."""
    labels = torch.arange(count) % 3
    centers = torch.randn(3, 8, generator=generator(7, "centers"))
    noise = torch.randn(3, count, 8, generator=generator(7, "cloud", number))
    return FeatureSplit(noise + torch.tensor([0.0, 2.0, 0.7])[:, None, None] * centers[labels], labels)


SPLITS = FeatureSplits(cloud(300, 0), cloud(120, 1), cloud(150, 2))
SUBSETS = [balanced_subset(SPLITS.train.labels, 5, generator(0, "subset", number)) for number in range(4)]


def test_errors_are_scikit_learns_on_each_subset() -> None:
    for index, ours in zip(SUBSETS, probe_subsets(SPLITS, SUBSETS, ONE, device=CPU), strict=True):
        regression = LogisticRegression(C=1 / (0.01 * 15), tol=1e-8, max_iter=5000)
        theirs = make_pipeline(StandardScaler(), regression)
        theirs.fit(SPLITS.train.features[1, index].double(), SPLITS.train.labels[index])
        assert ours.layer == 1
        score = theirs.score(SPLITS.test.features[1].double(), SPLITS.test.labels)
        assert ours.test_accuracy == pytest.approx(score, abs=1 / 150)


def test_labels_of_test_images_and_images_outside_of_the_subsets_are_not_used() -> None:
    wrong = FeatureSplit(SPLITS.test.features, (SPLITS.test.labels + 1) % 3)
    features = SPLITS.train.features.clone()
    outside = torch.ones(300, dtype=torch.bool)
    outside[torch.cat(SUBSETS)] = False
    features[:, outside] = 1e4
    expected = probe_subsets(SPLITS, SUBSETS, ONE, device=CPU)
    layers = probe_subsets(replace(SPLITS, test=wrong), SUBSETS, ONE, device=CPU)
    assert [each.layer for each in layers] == [each.layer for each in expected]
    changed = replace(SPLITS, train=FeatureSplit(features, SPLITS.train.labels))
    assert probe_subsets(changed, SUBSETS, ONE, device=CPU) == expected


def test_subsets_are_balanced_and_a_percentage_is_of_each_class_rounded_up() -> None:
    labels = torch.tensor([0] * 41 + [1] * 9 + [2] * 100)
    drawn = label_subsets(labels, (3, "5%"), 2, seed=0)
    assert [labels[index].bincount().tolist() for index in drawn["5%"]] == [[3, 1, 5]] * 2
    assert [labels[index].bincount().tolist() for index in drawn[3]] == [[3, 3, 3]] * 2
    assert not torch.equal(*drawn[3])


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        (("101%",), "labels is '101%'; allowed: 1 or more images of each class, or"),
        ((0,), "labels is 0; allowed: 1 or more images of each class"),
        ((4, 4), "allowed: each number once"),
        ((10,), "10 images per class requested; a class has only 9 in train"),
    ],
)
def test_impossible_numbers_are_refused(counts: tuple[int | str, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        label_subsets(torch.tensor([0] * 41 + [1] * 9), counts, 1, seed=0)
