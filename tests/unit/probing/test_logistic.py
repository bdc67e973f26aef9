"""Logistic regression equals scikit-learn's, run to convergence."""

import pytest
import torch
from sklearn.linear_model import LogisticRegression

from isopix.probing import logistic
from isopix.probing.features import extract_features
from isopix.probing.logistic import fit_logistic
from isopix.probing.splits import FeatureSplit, FeatureSplits
from tests.unit.probing.cases import DEPTH, clusters, digits, standardize, trained

L2_GRID = (1e-4, 1e-2, 1.0)
WIDE_GRID = (1e-6, 1e-5, *L2_GRID)
TRAIN = 900


@pytest.fixture(scope="module")
def layers(tmp_path_factory: pytest.TempPathFactory) -> FeatureSplits:
    """Standardised features of digits at each layer of a trained network; validation is not used."""
    images, labels = digits()
    features = extract_features(trained(tmp_path_factory.mktemp("trained") / "run"), images)
    train, test = (
        FeatureSplit(features[:, part], labels[part]) for part in (slice(0, TRAIN), slice(TRAIN, None))
    )
    return standardize(FeatureSplits(train, test, test))


@pytest.fixture(scope="module")
def fits(layers: FeatureSplits) -> logistic.LinearFits:
    return fit_logistic(
        layers.train.features, layers.train.labels, grid(DEPTH + 1, WIDE_GRID), num_classes=10
    )


def grid(sets, l2_grid=L2_GRID):
    return torch.tensor(l2_grid).expand(sets, -1)


def reference(features, labels, l2, share=1.0):
    """scikit-learn's model and our objective at its weights; `share` is of C."""
    model = LogisticRegression(C=share / (l2 * len(labels)), tol=1e-10, max_iter=20_000)
    model.fit(features.double().numpy(), labels.numpy())
    nats = (
        -torch.from_numpy(model.predict_log_proba(features.double().numpy()))
        .gather(1, labels[:, None])
        .mean()
    )
    penalty = torch.from_numpy(model.coef_).square().sum() * l2 / 2 / share
    return model, float(nats + penalty)


@pytest.mark.parametrize("column", range(len(WIDE_GRID)))
@pytest.mark.parametrize("layer", range(DEPTH + 1))
def test_objective_and_accuracy_are_scikit_learns_on_real_layers(layers, fits, layer, column):
    train, test = layers.train, layers.test
    model, objective = reference(train.features[layer], train.labels, WIDE_GRID[column])
    theirs = model.score(test.features[layer].numpy(), test.labels.numpy())
    ours = (fits.predict(test.features)[layer, column] == test.labels).double().mean().item()
    assert fits.objectives[layer, column].item() == pytest.approx(objective, rel=1e-6)
    assert ours == pytest.approx(theirs, abs=0.0005)


def test_fits_on_real_layers_have_converged(fits):
    assert fits.converged.all()
    assert (fits.grad_norms <= fits.max_grad_norms).all()


def test_two_classes_are_scikit_learns_with_twice_its_c():
    features, labels = clusters(200, 6, 2)
    fits = fit_logistic(features, labels, grid(1), num_classes=2)
    for column, l2 in enumerate(L2_GRID):
        model, objective = reference(features[0], labels, l2, share=2.0)
        assert fits.objectives[0, column].item() == pytest.approx(objective, rel=1e-6)
        difference = fits.weights[0, column, 1] - fits.weights[0, column, 0]
        torch.testing.assert_close(difference, torch.from_numpy(model.coef_[0]), atol=1e-3, rtol=1e-3)


def test_many_classes():
    features, labels = clusters(600, 20, 60)
    fits = fit_logistic(features, labels, grid(1, (1e-2,)), num_classes=60)
    assert fits.objectives.item() == pytest.approx(reference(features[0], labels, 1e-2)[1], rel=1e-6)


def test_fewer_images_than_features():
    features, labels = clusters(30, 80, 3)
    fits = fit_logistic(features, labels, grid(1, (1e-2,)), num_classes=3)
    model, objective = reference(features[0], labels, 1e-2)
    assert fits.objectives.item() == pytest.approx(objective, rel=1e-6)
    torch.testing.assert_close(fits.weights[0, 0], torch.from_numpy(model.coef_), atol=1e-3, rtol=1e-3)


def test_wide_features_need_no_decomposition_of_their_width(decomposed_sizes):
    """Raw pixels of 96x96 have 27,648 values, whose covariance would take 6 GB."""
    features, labels = clusters(40, 200, 3)
    fits = fit_logistic(torch.cat([features, 0 * features], 2), labels, grid(1), num_classes=3)
    assert decomposed_sizes == [40]
    for column, l2 in enumerate(L2_GRID):
        assert fits.objectives[0, column].item() == pytest.approx(
            reference(features[0], labels, l2)[1], rel=1e-6
        )


def test_unequal_classes():
    features, labels = clusters(400, 8, 4)
    kept = (labels == 0) | (torch.arange(400) < 60)
    fits = fit_logistic(features[:, kept], labels[kept], grid(1, (1e-3,)), num_classes=4)
    assert fits.objectives.item() == pytest.approx(
        reference(features[0, kept], labels[kept], 1e-3)[1], rel=1e-6
    )


def test_features_of_wildly_different_scales_and_far_from_zero_converge():
    features, labels = clusters(500, 30, 5)
    features = features.double() * torch.logspace(-2, 2, 30, dtype=torch.float64) + 1e3
    fits = fit_logistic(features, labels, grid(1, L2_GRID[1:]), num_classes=5)
    assert fits.converged.all()
    centered = features[0] - features[0].mean(0)  # scikit-learn needs this; the minimum is the same
    for column, l2 in enumerate(L2_GRID[1:]):
        objective = reference(centered, labels, l2)[1]
        assert fits.objectives[0, column].item() == pytest.approx(objective, rel=1e-6)


def test_the_penalty_alone_decides_between_copies_of_a_feature():
    features, labels = clusters(100, 1, 2)
    fits = fit_logistic(features.expand(1, 100, 3), labels, grid(1, (1e-2,)), num_classes=2)
    torch.testing.assert_close(fits.weights[..., :1].expand(-1, -1, -1, 3), fits.weights)


def test_uninformative_features_leave_the_class_frequencies():
    labels = torch.tensor([0, 0, 0, 1])
    fits = fit_logistic(torch.full((1, 4, 2), 7.0), labels, grid(1, (0.1,)), num_classes=2)
    torch.testing.assert_close(
        fits.intercepts[0, 0].softmax(0), torch.tensor([0.75, 0.25], dtype=torch.float64)
    )


def test_a_batch_of_problems_equals_them_one_by_one(layers, fits):
    train = layers.train
    for layer in range(DEPTH + 1):
        for l2 in L2_GRID:
            alone = fit_logistic(
                train.features[layer : layer + 1], train.labels, grid(1, (l2,)), num_classes=10
            )
            together = fits.objectives[layer, WIDE_GRID.index(l2)]
            torch.testing.assert_close(alone.objectives[0, 0], together, rtol=1e-7, atol=0)


def test_batches_of_images_change_nothing(monkeypatch):
    features, labels = clusters(100, 5, 3)
    whole = fit_logistic(features, labels, grid(1), num_classes=3)
    monkeypatch.setitem(logistic.BATCH_NUMBERS, "cpu", 200)
    torch.testing.assert_close(
        fit_logistic(features, labels, grid(1), num_classes=3).objectives, whole.objectives, rtol=1e-7, atol=0
    )


def test_the_same_call_gives_the_same_bits():
    features, labels = clusters(100, 5, 3)
    first, second = (fit_logistic(features, labels, grid(1), num_classes=3) for _ in range(2))
    assert torch.equal(first.weights, second.weights)


def test_an_interrupted_fit_has_not_converged():
    features, labels = clusters(100, 5, 3)
    assert not fit_logistic(
        features, labels, grid(1, (1e-6,)), num_classes=3, max_iterations=3
    ).converged.any()


def test_taking_fits_keeps_each_sets_own(fits):
    taken = fits.take(torch.tensor([[2], [0], [1]]))
    assert taken.objectives[:, 0].tolist() == [
        fits.objectives[row, column] for row, column in ((0, 2), (1, 0), (2, 1))
    ]
    assert taken.weights.shape[:2] == (3, 1)
