"""Logistic regression, ridge regression and k-NN are scikit-learn's, run to convergence."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsClassifier

from isopix.probing import logistic, methods
from isopix.probing.base import ProbeProblem
from isopix.probing.features import extract_features
from isopix.probing.logistic import LinearFits, fit_logistic
from isopix.probing.methods import KnnProbe, LbfgsProbe, RidgeProbe, knn_accuracy
from isopix.probing.splits import FeatureSplit, FeatureSplits
from tests.unit.probing.cases import CPU, DEPTH, clusters, cut, digits, network, standardize, trained

L2_GRID = (1e-4, 1e-2, 1.0)
WIDE_GRID = (1e-6, 1e-5, *L2_GRID)


def grid(sets: int, values: tuple[float, ...] = L2_GRID) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64).expand(sets, -1)


@pytest.fixture(scope="module")
def layers(tmp_path_factory: pytest.TempPathFactory) -> FeatureSplits:
    """Standardized features of digits at each layer of a trained network; validation is not used."""
    images, labels = digits()
    features = extract_features(trained(tmp_path_factory.mktemp("trained") / "run"), images)
    train, test = (FeatureSplit(features[:, each], labels[each]) for each in (slice(900), slice(900, None)))
    return standardize(FeatureSplits(train, test, test))


@pytest.fixture(scope="module")
def fits(layers: FeatureSplits) -> LinearFits:
    train = layers.train
    return fit_logistic(train.features, train.labels, grid(DEPTH + 1, WIDE_GRID), num_classes=10)


def reference(features, labels, l2: float, share: float = 1.0) -> tuple[LogisticRegression, float]:
    """scikit-learn's model and our objective at its weights; `share` is of C."""
    x = features.double().numpy()
    model = LogisticRegression(C=share / (l2 * len(labels)), tol=1e-10, max_iter=20_000).fit(
        x, labels.numpy()
    )
    nats = -model.predict_log_proba(x)[np.arange(len(x)), labels.numpy()].mean()
    return model, float(nats + np.square(model.coef_).sum() * l2 / 2 / share)


@pytest.mark.parametrize("column", range(len(WIDE_GRID)))
@pytest.mark.parametrize("layer", range(DEPTH + 1))
def test_objective_and_accuracy_are_scikit_learns_on_real_layers(layers, fits, layer, column) -> None:
    train, test = layers.train, layers.test
    model, objective = reference(train.features[layer], train.labels, WIDE_GRID[column])
    theirs = model.score(test.features[layer].numpy(), test.labels.numpy())
    ours = (fits.predict(test.features)[layer, column] == test.labels).double().mean().item()
    assert fits.objectives[layer, column].item() == pytest.approx(objective, rel=1e-6)
    assert ours == pytest.approx(theirs, abs=0.003)
    assert fits.converged.all()
    assert (fits.grad_norms <= 1e-5).all()


def unequal() -> tuple[torch.Tensor, torch.Tensor]:
    features, labels = clusters(400, 8, 4)
    kept = (labels == 0) | (torch.arange(400) < 60)
    return features[:, kept], labels[kept]


def wild() -> tuple[torch.Tensor, torch.Tensor]:
    """Features of wildly different scales, centered, which scikit-learn needs."""
    features, labels = clusters(500, 30, 5)
    features = features.double() * torch.logspace(-2, 2, 30, dtype=torch.float64)
    return features - features.mean(1, keepdim=True), labels


@pytest.mark.parametrize(
    ("data", "classes", "share"),
    [
        (clusters(200, 5, 2, spread=2.0), 2, 2.0),  # of the difference of two weight vectors
        (clusters(600, 20, 60), 60, 1.0),
        (clusters(30, 80, 3), 3, 1.0),  # fewer images than features
        (unequal(), 4, 1.0),
        (wild(), 5, 1.0),
    ],
)
@pytest.mark.parametrize("l2", [1e-3, 1e-1])
def test_objectives_are_scikit_learns(data, classes: int, share: float, l2: float) -> None:
    features, labels = data
    fits = fit_logistic(features + 1, labels, grid(1, (l2,)), num_classes=classes)
    assert fits.converged.all()
    assert fits.objectives.item() == pytest.approx(reference(features[0], labels, l2, share)[1], rel=1e-6)


@pytest.mark.parametrize("method", [LbfgsProbe(), RidgeProbe()], ids=lambda method: method.kind)
def test_wide_features_need_no_decomposition_of_their_width(method, monkeypatch: pytest.MonkeyPatch) -> None:
    """Raw pixels of 96x96 have 27,648 values, whose covariance would take 6 GB."""
    sizes, eigh = [], torch.linalg.eigh
    monkeypatch.setattr(torch.linalg, "eigh", lambda matrix: sizes.append(matrix.shape[-1]) or eigh(matrix))
    features, labels = clusters(40, 200, 3)
    fits = method.fit(torch.cat([features, 0 * features], 2), labels, grid(1, (1e-2,)), num_classes=3)
    assert sizes == [40]
    x = features[0].double().numpy()
    theirs = reference(features[0], labels, 1e-2)[0]
    if method.kind == "ridge":
        theirs = Ridge(alpha=1e-2 * 40).fit(x, np.eye(3)[labels.numpy()])
    np.testing.assert_allclose(fits.weights[0, 0, :, :200].numpy(), theirs.coef_, atol=1e-3, rtol=1e-3)


def test_a_batch_of_problems_equals_them_one_by_one_in_any_batches(layers, fits, monkeypatch) -> None:
    monkeypatch.setitem(logistic.BATCH_NUMBERS, "cpu", 2000)
    train = layers.train
    for layer in range(DEPTH + 1):
        alone = fit_logistic(train.features[layer][None], train.labels, grid(1, (1e-2,)), num_classes=10)
        together = fits.objectives[layer, WIDE_GRID.index(1e-2)]
        torch.testing.assert_close(alone.objectives[0, 0], together, rtol=1e-7, atol=0)


@pytest.mark.parametrize("column", range(len(L2_GRID)))
@pytest.mark.parametrize(("images", "width", "classes"), [(300, 6, 3), (30, 80, 4), (200, 5, 2)])
def test_ridge_has_scikit_learns_weights_and_the_objective_of_a_loop(images, width, classes, column) -> None:
    features, labels = clusters(images, width, classes)
    fits = RidgeProbe().fit(features + 3, labels, grid(1), num_classes=classes)
    x, targets = (features[0] + 3).double().numpy(), np.eye(classes)[labels.numpy()]
    theirs = Ridge(alpha=L2_GRID[column] * images).fit(x, targets)
    np.testing.assert_allclose(fits.weights[0, column].numpy(), theirs.coef_, atol=1e-8, rtol=0)
    np.testing.assert_allclose(fits.intercepts[0, column].numpy(), theirs.intercept_, atol=1e-8, rtol=0)
    squares = sum(
        np.square(theirs.predict(one[None])[0] - y).sum() for one, y in zip(x, targets, strict=True)
    )
    naive = squares / images + L2_GRID[column] * np.square(theirs.coef_).sum()
    assert fits.objectives[0, column].item() == pytest.approx(naive, rel=1e-8)
    assert fits.grad_norms.max() < 1e-11


@pytest.mark.parametrize(("count", "batch_size"), [(1, 1024), (5, 100), (200, 1024)])
def test_votes_and_predictions_are_scikit_learns(count: int, batch_size: int, monkeypatch) -> None:
    monkeypatch.setattr(methods, "BATCH_SIZE", batch_size)
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
