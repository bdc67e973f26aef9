"""SGD and Adam are their naive loops on the same batches, agree with L-BFGS, and read a batch at a time."""

from pathlib import Path

import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch import nn

from isopix.data.batches import ShuffledIndices
from isopix.probing.base import ProbeMethod, ProbeProblem
from isopix.probing.minibatch import LEARNING_RATE, AdamProbe, SgdProbe
from isopix.probing.splits import FeatureSplit, FeatureSplits, cached
from tests.unit.probing.cases import CPU, clusters, cut, easy, run, standardize

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


def test_each_layer_of_adam_stops_as_if_it_were_alone() -> None:
    features, labels = clusters(300, 6, 3, spread=2.0)
    hard = torch.randn(features.shape, generator=torch.Generator().manual_seed(1))
    splits, method = (
        cut(torch.cat([features, hard]), labels),
        AdamProbe(batch_size=32, tolerance=0.01, patience=2),
    )
    together = run(splits, method).layers
    assert len({layer.fit["iterations"] for layer in together}) == 2
    for index, one in enumerate(together):
        other = run(splits.select_layers(index, index + 1), method).best
        assert one.fit["iterations"] == other.fit["iterations"]
        assert one.fit["objective"] == pytest.approx(other.fit["objective"], rel=1e-5)


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
def test_features_in_16_bits_are_read_a_batch_at_a_time(
    method: ProbeMethod, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    splits, names = easy(), ("train", "validation", "test")
    parts = {name: getattr(splits, name) for name in names}
    reads = {name: lambda part=part: iter([part.features]) for name, part in parts.items()}
    features, scale = cached(reads, tmp_path / "key")
    halves = {name: FeatureSplit(features[name], part.labels) for name, part in parts.items()}
    taken, select = [], FeatureSplit.select

    def spy(split: FeatureSplit, images) -> FeatureSplit:
        taken.append(1 if isinstance(images, slice) else len(images))
        return select(split, images)

    monkeypatch.setattr(FeatureSplit, "select", spy)
    assert method.streams
    found = run(FeatureSplits(**halves, stored_scale=scale), method).best
    assert max(taken) == 32
    assert found.fit["objective"] == pytest.approx(run(splits, method).best.fit["objective"], rel=1e-3)
