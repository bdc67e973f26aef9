"""Exact fits are scikit-learn's; SGD and Adam are their naive loops on the same batches."""

from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsClassifier
from torch import nn

from isopix.data.batches import ShuffledIndices
from isopix.probing import logistic, methods
from isopix.probing.features import extract_features
from isopix.probing.logistic import LinearFits, fit_logistic
from isopix.probing.methods import KnnProbe, LbfgsProbe, RidgeProbe, knn_accuracy
from isopix.probing.minibatch import LEARNING_RATE, AdamProbe, SgdProbe
from isopix.probing.probe import ProbeMethod, ProbeProblem
from isopix.probing.splits import FeatureSplit, FeatureSplits, streamed
from tests.unit.probing.cases import CPU, DEPTH, clusters, cut, digits, easy, network, run, standardize

L2_GRID = (1e-4, 1e-2, 1.0)
WIDE_GRID = (1e-6, 1e-5, *L2_GRID)


def grid(sets: int, values: tuple[float, ...] = L2_GRID) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64).expand(sets, -1)


@pytest.fixture(scope="module")
def layers() -> FeatureSplits:
    """Standardized features of digits at each layer of a network; validation is not used."""
    images, labels = digits()
    features = extract_features(network(), images)
    train, test = (FeatureSplit(features[:, each], labels[each]) for each in (slice(900), slice(900, None)))
    return standardize(FeatureSplits(train, test, test))


@pytest.fixture(scope="module")
def fits(layers: FeatureSplits) -> LinearFits:
    train = layers.train
    return fit_logistic(train.features, train.labels, grid(DEPTH + 1, WIDE_GRID), num_classes=10)


def reference(features, labels, l2: float, share: float = 1.0) -> tuple[LogisticRegression, float]:
    """scikit-learn's model and our objective at its weights; `share` is of C."""
    x = features.double().numpy()
    model = LogisticRegression(C=share / (l2 * len(labels)), tol=1e-10, max_iter=20_000)
    model.fit(x, labels.numpy())
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
    pairs = zip(x, targets, strict=True)
    squares = sum(np.square(theirs.predict(one[None])[0] - y).sum() for one, y in pairs)
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


NEVER = 10_000  # epochs without progress before a layer stops
QUICK = (SgdProbe(iterations=60, batch_size=32), AdamProbe(epochs=6, batch_size=32))
each_method = pytest.mark.parametrize("method", QUICK, ids=lambda method: method.kind)


def test_sgd_is_the_naive_loop() -> None:
    """Momentum, cosine and standardized features, in float64 and one image after another."""
    splits = easy()
    found = run(splits, SgdProbe(iterations=4, batch_size=32, lr_grid=(0.3,))).best
    x, labels = standardize(splits).train.features[0].double(), splits.train.labels
    order = ShuffledIndices(len(x), batch_size=32, seed=0, purpose="probe.order")
    weights = torch.zeros(3, 7, dtype=torch.float64)
    velocity = torch.zeros_like(weights)
    ones = torch.cat([x, torch.ones(len(x), 1)], 1)
    for step in range(4):
        gradient = torch.zeros_like(weights)
        for image in order.indices(step).tolist():
            error = (weights @ ones[image]).softmax(0)
            error[labels[image]] -= 1
            gradient += torch.outer(error, ones[image]) / 32
        velocity = 0.9 * velocity + gradient
        weights -= 0.3 * 0.5 * (1 + torch.cos(torch.tensor(torch.pi * step / 4))) * velocity
    nats = nn.functional.cross_entropy(ones @ weights.T, labels)
    assert found.selected == {LEARNING_RATE: pytest.approx(0.3)}
    assert found.fit == {"objective": pytest.approx(float(nats), rel=1e-5), "iterations": 4}


def torch_adam(splits: FeatureSplits, method: AdamProbe) -> tuple[nn.Linear, list[float]]:
    """torch.optim.Adam and its own schedulers on the same batches, in float64, with one epoch of warmup; and
    the mean loss of each epoch.
    """
    x, labels = standardize(splits).train.features[0].double(), splits.train.labels
    layer = nn.Linear(x.shape[1], 3, dtype=torch.float64)
    for parameter in layer.parameters():
        nn.init.zeros_(parameter)
    optimizer = torch.optim.Adam(layer.parameters(), lr=method.lr, eps=1e-7)
    order = ShuffledIndices(len(x), batch_size=method.batch_size, seed=0, purpose="probe.order")
    epoch = -(-len(x) // method.batch_size)
    warmup = torch.optim.lr_scheduler.LinearLR(optimizer, 1 / epoch, 1, total_iters=max(1, epoch - 1))
    decay = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, method.epochs * epoch)
    schedule = torch.optim.lr_scheduler.SequentialLR(optimizer, [warmup, decay], [epoch])
    losses = []
    for step in range((1 + method.epochs) * epoch):
        index = order.indices(step)
        loss = nn.functional.cross_entropy(layer(x[index]), labels[index])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
    return layer, torch.tensor(losses).reshape(-1, epoch).mean(1).tolist()


@pytest.mark.parametrize("batch_size", [32, 100])
def test_adam_is_that_of_torch_on_the_same_batches(batch_size: int) -> None:
    splits = easy()
    method = AdamProbe(epochs=6, batch_size=batch_size, lr=0.02, patience=NEVER)
    [fitted] = method.fit_layers(ProbeProblem(splits, CPU, 0))
    layer, _ = torch_adam(splits, method)
    expected = layer(standardize(splits).test.features[0].double()).softmax(-1).detach()
    found = fitted.predict_proba(splits.test.features)[0].double()
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)
    assert fitted.fit[0]["iterations"] == 7 * -(-120 // batch_size)


@pytest.mark.parametrize("tolerance", [0.02, 0.1])
def test_a_layer_of_adam_stops_after_epochs_without_progress(tolerance: float) -> None:
    method = AdamProbe(epochs=40, batch_size=32, lr=0.05, tolerance=tolerance, patience=3)
    lowest, waited, expected = float("inf"), 0, 0
    for expected, loss in enumerate(torch_adam(easy(), method)[1], start=1):  # noqa: B007
        waited = 0 if loss < (1 - tolerance) * lowest else waited + 1
        lowest = min(lowest, loss)
        if waited == 3:
            break
    assert expected < 41
    assert run(easy(), method).best.fit["iterations"] == expected * 4


@pytest.mark.parametrize(("method", "accuracy"), [(SgdProbe(), 0.015), (AdamProbe(), 0.015)])
def test_they_converge_to_logistic_regression_without_a_penalty(method: ProbeMethod, accuracy: float) -> None:
    splits = cut(*clusters(1500, 6, 3, spread=2.0), train=900, validation=100)
    found, scaled = run(splits, method).best, standardize(splits)
    model = LogisticRegression(C=float("inf"), tol=1e-8, max_iter=1000)
    model.fit(scaled.train.features[0], splits.train.labels)
    probabilities = torch.from_numpy(model.predict_proba(scaled.train.features[0]))
    nats = nn.functional.nll_loss(probabilities.log(), splits.train.labels).item()
    assert found.fit["objective"] == pytest.approx(nats, rel=2e-3)
    assert abs(found.test_accuracy - model.score(scaled.test.features[0], splits.test.labels)) < accuracy


@each_method
def test_features_on_disk_are_read_a_batch_at_a_time(
    method: ProbeMethod, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    splits, names = easy(), ("train", "validation", "test")
    parts = {name: getattr(splits, name) for name in names}
    reads = {name: lambda part=part: iter([part.features]) for name, part in parts.items()}
    features = streamed(reads, tmp_path / "key")
    stored = {name: FeatureSplit(features[name], part.labels) for name, part in parts.items()}
    taken, select = [], FeatureSplit.select

    def spy(split: FeatureSplit, images) -> FeatureSplit:
        taken.append(1 if isinstance(images, slice) else len(images))
        return select(split, images)

    monkeypatch.setattr(FeatureSplit, "select", spy)
    assert method.streams
    found = run(FeatureSplits(**stored), method).best
    assert max(taken) == 32
    assert found.fit["objective"] == pytest.approx(run(splits, method).best.fit["objective"], rel=1e-6)
