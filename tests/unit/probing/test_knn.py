"""k-NN equals scikit-learn's, in batches or at once."""

import numpy as np
import pytest
import torch
from sklearn.neighbors import KNeighborsClassifier

from isopix.probing import knn
from isopix.probing.baselines import raw_pixels
from isopix.probing.features import extract_features
from isopix.probing.knn import KnnProbe, class_votes, knn_accuracy
from isopix.probing.splits import FeatureSplit
from tests.unit.probing.cases import clusters, cut, digits, network, run, standardize


def theirs(points, labels, count):
    votes = KNeighborsClassifier(count, metric="cosine", weights=lambda far: np.exp((1 - far) / 0.07))
    return votes.fit(points.numpy(), labels.numpy())


@pytest.mark.parametrize("count", [1, 5, 200])
def test_votes_and_predictions_are_scikit_learns(count):
    images, labels = digits()
    layers = standardize(cut(extract_features(network(), images), labels, 900, 300))
    for points, queries in zip(layers.train.features.double(), layers.test.features.double(), strict=True):
        own = class_votes(queries, points, layers.train.labels, neighbors_grid=[200, count], num_classes=10)[
            1
        ]
        reference = theirs(points, layers.train.labels, count)
        np.testing.assert_allclose(own.numpy(), reference.predict_proba(queries.numpy()), atol=1e-9)
        assert np.array_equal(own.argmax(-1).numpy(), reference.predict(queries.numpy()))


def test_the_batch_size_does_not_matter(monkeypatch):
    features, labels = clusters(300, 6, 3, spread=2.0)
    points, queries = features[0, :200], features[0, 200:]
    whole = class_votes(queries, points, labels[:200], neighbors_grid=[20], num_classes=3)
    monkeypatch.setattr(knn, "BATCH_SIZE", 7)
    torch.testing.assert_close(
        class_votes(queries, points, labels[:200], neighbors_grid=[20], num_classes=3), whole
    )


def test_knn_accuracy_is_that_of_the_probe():
    images, labels = digits()
    features = torch.cat([raw_pixels(images)[..., :64], raw_pixels(images)[..., 64:128]])
    splits = cut(features, labels, 300, 100)
    found = knn_accuracy(splits.train, splits.test, num_neighbors=20)
    record = run(splits, KnnProbe(neighbors_grid=(20,)))
    assert found == [score.test_accuracy for score in record.layers]


def test_few_images_and_labels_with_gaps():
    train = FeatureSplit(torch.eye(3)[None], torch.tensor([7, 0, 7]))
    queries = FeatureSplit(torch.eye(3)[None, :2], torch.tensor([7, 0]))
    assert knn_accuracy(train, queries, num_neighbors=1) == [1.0]
    assert knn_accuracy(train, queries, num_neighbors=20) == [1.0]
