"""Ridge regression is scikit-learn's, for every penalty from one decomposition."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import Ridge

from isopix.probing import ridge
from isopix.probing.features import extract_features
from tests.unit.probing.cases import clusters, digits, network

L2_GRID = (1e-6, 1e-3, 1.0)


def fit(features, labels, l2_grid=L2_GRID):
    grid = torch.tensor(l2_grid, dtype=torch.float64).expand(len(features), -1)
    return ridge.fit_ridge(features, labels, grid, num_classes=int(labels.max()) + 1)


@pytest.mark.parametrize("column", range(len(L2_GRID)))
@pytest.mark.parametrize(("images", "width", "classes"), [(300, 6, 3), (30, 80, 4), (200, 5, 2)])
def test_weights_and_intercepts_are_scikit_learns(images, width, classes, column):
    features, labels = clusters(images, width, classes)
    fits = fit(features + 3, labels)
    exact = (features[0] + 3).double().numpy()
    targets = np.eye(classes)[labels.numpy()]
    theirs = Ridge(alpha=L2_GRID[column] * images).fit(exact, targets)
    np.testing.assert_allclose(fits.weights[0, column].numpy(), theirs.coef_, atol=1e-8, rtol=0)
    np.testing.assert_allclose(fits.intercepts[0, column].numpy(), theirs.intercept_, atol=1e-8, rtol=0)


def test_wide_features_need_no_decomposition_of_their_width(decomposed_sizes):
    features, labels = clusters(40, 200, 3)
    fits = fit(features, labels)
    assert decomposed_sizes == [40]
    assert fits.grad_norms.max() < 1e-12
    theirs = Ridge(alpha=L2_GRID[1] * 40).fit(features[0].double().numpy(), np.eye(3)[labels.numpy()])
    np.testing.assert_allclose(fits.weights[0, 1].numpy(), theirs.coef_, atol=1e-8, rtol=0)


def test_scores_on_real_layers_are_scikit_learns():
    images, labels = digits()
    features = extract_features(network(), images)
    fits = fit(features[:, :900], labels[:900], (1e-3,))
    for layer, own in enumerate(fits.logits(features[:, 900:])[:, 0]):
        exact = features[layer].double().numpy()
        theirs = Ridge(alpha=0.9).fit(exact[:900], np.eye(10)[labels[:900].numpy()])
        np.testing.assert_allclose(own.numpy(), theirs.predict(exact[900:]), atol=1e-8, rtol=0)


def test_objectives_are_those_of_a_naive_loop_and_gradients_vanish():
    features, labels = clusters(100, 5, 3)
    fits = fit(features, labels)
    for column, l2 in enumerate(L2_GRID):
        weights, intercepts = fits.weights[0, column], fits.intercepts[0, column]
        squares = 0.0
        for x, label in zip(features[0].double(), labels, strict=True):
            residual = weights @ x + intercepts - torch.eye(3, dtype=torch.float64)[label]
            squares += float(residual @ residual)
        naive = squares / 100 + l2 * float(weights.square().sum())
        assert fits.objectives[0, column].item() == pytest.approx(naive, rel=1e-10)
    assert fits.grad_norms.max() < 1e-12
    assert fits.converged.all()


def test_targets_of_plus_and_minus_one_give_the_same_predictions():
    features, labels = clusters(200, 6, 4, spread=3.0)
    exact, signs = features[0].double().numpy(), 2 * np.eye(4)[labels.numpy()] - 1
    theirs = Ridge(alpha=1e-3 * 200).fit(exact, signs).predict(exact).argmax(1)
    assert np.array_equal(fit(features, labels, (1e-3,)).predict(features)[0, 0].numpy(), theirs)
