"""k-NN equals scikit-learn's, in batches or at once."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.neighbors import KNeighborsClassifier

from isopix.probing import knn
from isopix.probing.baselines import raw_pixels
from isopix.probing.config import ProbeConfig
from isopix.probing.features import extract_features
from isopix.probing.knn import KnnProbe, class_votes, knn_accuracy
from isopix.probing.probe import fit_probe
from isopix.probing.splits import FeatureSplit
from tests.unit.probing.cases import CPU, clusters, cut, digits, network, standardize

QUICK = ProbeConfig(method=KnnProbe(), num_resamples=200)


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


def test_the_number_is_selected_on_validation_and_never_above_the_images():
    splits = cut(*clusters(300, 6, 3, spread=2.0))
    record = fit_probe(splits, QUICK, device=CPU)
    accuracies = {
        count: fit_probe(
            splits, replace(QUICK, method=KnnProbe(neighbors_grid=(count,))), device=CPU
        ).best.val_accuracy
        for count in (10, 20, 50, 100, 120)
    }
    best = max(accuracies.values())
    assert record.best.val_accuracy == best
    assert record.best.neighbors == max(count for count in accuracies if accuracies[count] == best)
    assert (record.best.l2, record.best.objective, record.warnings) == (None, None, ())


def test_knn_accuracy_is_that_of_the_probe():
    images, labels = digits()
    features = torch.cat([raw_pixels(images)[..., :64], raw_pixels(images)[..., 64:128]])
    splits = cut(features, labels, 300, 100)
    found = knn_accuracy(splits.train, splits.test, num_neighbors=20)
    record = fit_probe(splits, replace(QUICK, method=KnnProbe(neighbors_grid=(20,))), device=CPU)
    assert found == [score.test_accuracy for score in record.layers]


def test_few_images_and_labels_with_gaps():
    train = FeatureSplit(torch.eye(3)[None], torch.tensor([7, 0, 7]))
    queries = FeatureSplit(torch.eye(3)[None, :2], torch.tensor([7, 0]))
    assert knn_accuracy(train, queries, num_neighbors=1) == [1.0]
    assert knn_accuracy(train, queries, num_neighbors=20) == [1.0]


@pytest.mark.parametrize("wrong", [{"neighbors_grid": ()}, {"neighbors_grid": (0,)}, {"temperature": 0.0}])
def test_invalid_settings_are_refused(wrong):
    with pytest.raises(ValueError, match=f"^{next(iter(wrong))} .* must be"):
        KnnProbe(**wrong)
