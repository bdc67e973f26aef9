"""k-NN equals scikit-learn's, in batches or at once."""

import numpy as np
import pytest
import torch
from sklearn.neighbors import KNeighborsClassifier

from isopix.probing import knn
from isopix.probing.base import ProbeProblem
from isopix.probing.features import extract_features
from isopix.probing.knn import KnnProbe, knn_accuracy
from isopix.probing.splits import FeatureSplit
from tests.unit.probing.cases import CPU, cut, digits, network, standardize


@pytest.mark.parametrize(("count", "batch_size"), [(1, 1024), (5, 100), (200, 1024)])
def test_votes_and_predictions_are_scikit_learns(count: int, batch_size: int, monkeypatch) -> None:
    monkeypatch.setattr(knn, "BATCH_SIZE", batch_size)
    images, labels = digits()
    splits = cut(extract_features(network(), images).double(), labels, 900, 300)
    scaled = standardize(splits)
    fits = KnnProbe(neighbors_grid=(count,)).fit_layers(ProbeProblem(splits, CPU, 0))
    for fitted, points, queries, features in zip(
        fits, scaled.train.features, scaled.test.features, splits.test.features, strict=True
    ):
        reference = KNeighborsClassifier(
            count, metric="cosine", weights=lambda far: np.exp((1 - far) / 0.07)
        ).fit(points.double().numpy(), splits.train.labels.numpy())
        own = fitted.predict_proba(features[None])[0]
        theirs = reference.predict_proba(queries.double().numpy())
        np.testing.assert_allclose(own.numpy(), theirs, atol=1e-4)
        assert (own.argmax(-1).numpy() == theirs.argmax(-1)).mean() > 0.998


def test_few_images_and_labels_with_gaps() -> None:
    train = FeatureSplit(torch.eye(3)[None], torch.tensor([7, 0, 7]))
    queries = FeatureSplit(torch.eye(3)[None, :2], torch.tensor([7, 0]))
    assert knn_accuracy(train, queries, num_neighbors=1) == [1.0]
    assert knn_accuracy(train, queries, num_neighbors=20) == [1.0]
