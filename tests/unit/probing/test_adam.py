"""The Adam probe is torch's Adam on the same batches, stops where it says, and agrees with scikit-learn."""

from dataclasses import replace

import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch import nn

from isopix.data.batches import ShuffledIndices
from isopix.probing import minibatch
from isopix.probing.base import ProbeProblem
from isopix.probing.config import ProbeConfig
from isopix.probing.minibatch import AdamProbe
from isopix.probing.probe import fit_probe
from isopix.probing.splits import FeatureSplit, FeatureSplits, cached
from tests.unit.probing.cases import CPU, clusters, cut, easy, standardize

QUICK = ProbeConfig(method=AdamProbe(epochs=6, batch_size=32), num_resamples=200)
NEVER = 10_000  # epochs without progress before a layer stops


def run(splits: FeatureSplits, config: ProbeConfig = QUICK):
    return fit_probe(splits, config, device=CPU)


def problem(splits: FeatureSplits) -> ProbeProblem:
    classes = torch.tensor(sorted(set(splits.train.labels.tolist())))
    return ProbeProblem(splits, classes, CPU, (), (), 0)


def reference(splits: FeatureSplits, *, epochs: int, lr: float, batch_size: int) -> nn.Linear:
    """torch.optim.Adam and its own schedulers on the same batches, in float64; one epoch of warmup."""
    x, labels = standardize(splits).train.features[0].double(), splits.train.labels
    layer = nn.Linear(x.shape[1], len(set(labels.tolist())), dtype=torch.float64)
    for parameter in layer.parameters():
        nn.init.zeros_(parameter)
    optimizer = torch.optim.Adam(layer.parameters(), lr=lr, eps=1e-7)
    order = ShuffledIndices(len(x), batch_size=batch_size, seed=0, purpose="probe.order")
    epoch = -(-len(x) // batch_size)
    warmup = torch.optim.lr_scheduler.LinearLR(optimizer, 1 / epoch, 1, total_iters=max(1, epoch - 1))
    decay = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs * epoch)
    schedule = torch.optim.lr_scheduler.SequentialLR(optimizer, [warmup, decay], [epoch])
    for step in range((1 + epochs) * epoch):
        index = order.indices(step)
        optimizer.zero_grad()
        nn.functional.cross_entropy(layer(x[index]), labels[index]).backward()
        optimizer.step()
        schedule.step()
    return layer


@pytest.mark.parametrize("batch_size", [32, 100])
def test_it_is_the_adam_of_torch_on_the_same_batches(batch_size: int) -> None:
    splits = easy()
    method = AdamProbe(epochs=6, batch_size=batch_size, lr=0.02, patience=NEVER)
    [fitted] = method.fit_layers(problem(splits))
    layer = reference(splits, epochs=6, lr=0.02, batch_size=batch_size)
    x = splits.test.features
    expected = layer(standardize(splits).test.features[0].double()).softmax(-1)
    torch.testing.assert_close(fitted.predict_proba(x)[0].double(), expected.detach(), rtol=1e-4, atol=1e-6)
    assert fitted.diagnostics[0]["iterations"] == 7 * -(-120 // batch_size)


def test_it_converges_to_logistic_regression_without_a_penalty() -> None:
    splits = cut(*clusters(1500, 6, 3, spread=2.0), train=900, validation=100)
    found = run(splits, replace(QUICK, method=AdamProbe())).best
    scaled = standardize(splits)
    model = LogisticRegression(C=float("inf"), tol=1e-8, max_iter=1000)
    model.fit(scaled.train.features[0], splits.train.labels)
    probabilities = torch.from_numpy(model.predict_proba(scaled.train.features[0]))
    nats = nn.functional.nll_loss(probabilities.log(), splits.train.labels).item()
    accuracy = model.score(scaled.test.features[0], splits.test.labels)
    assert 0.5 < accuracy < 0.99
    assert found.objective == pytest.approx(nats, rel=2e-3)
    assert abs(found.test_accuracy - accuracy) < 0.015
    assert (found.lr, found.l2) == (0.01, None)


def losses_by_epoch(splits: FeatureSplits, method: AdamProbe) -> list[float]:
    """The mean loss of each epoch's batches, by torch."""
    x, labels = standardize(splits).train.features[0].double(), splits.train.labels
    epoch = -(-len(x) // method.batch_size)
    order = ShuffledIndices(len(x), batch_size=method.batch_size, seed=0, purpose="probe.order")
    weights = torch.zeros(x.shape[1] + 1, 3, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.Adam([weights], lr=method.lr, eps=1e-7)
    inputs = torch.cat([x, torch.ones(len(x), 1)], 1)
    steps, found = (1 + method.epochs) * epoch, []
    for step in range(steps):
        decay = 0.5 + 0.5 * torch.cos(torch.tensor(torch.pi * (step - epoch) / (steps - epoch))).item()
        optimizer.param_groups[0]["lr"] = method.lr * ((step + 1) / epoch if step < epoch else decay)
        index = order.indices(step)
        loss = nn.functional.cross_entropy(inputs[index] @ weights, labels[index])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return torch.tensor(found).reshape(-1, epoch).mean(1).tolist()


@pytest.mark.parametrize("tolerance", [0.02, 0.1])
def test_a_layer_stops_after_epochs_without_progress(tolerance: float) -> None:
    splits = easy()
    method = AdamProbe(epochs=40, batch_size=32, lr=0.05, tolerance=tolerance, patience=3)
    lowest, waited, expected = float("inf"), 0, 0
    for expected, loss in enumerate(losses_by_epoch(splits, method), start=1):  # noqa: B007
        waited = 0 if loss < (1 - tolerance) * lowest else waited + 1
        lowest = min(lowest, loss)
        if waited == 3:
            break
    assert expected < 41
    assert run(splits, replace(QUICK, method=method)).best.iterations == expected * 4


def test_a_layer_that_has_converged_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Layers are trained together; each stops as if it were alone."""
    features, labels = clusters(300, 6, 3, spread=2.0)
    hard = torch.randn(features.shape, generator=torch.Generator().manual_seed(1))
    splits = cut(torch.cat([features, hard, features.flip(2) * features]), labels)
    config = replace(QUICK, method=AdamProbe(batch_size=32, tolerance=0.01, patience=2))
    together = run(splits, config)
    assert len({layer.iterations for layer in together.layers}) > 1
    monkeypatch.setattr(minibatch, "MAX_BYTES", 1)
    apart = run(splits, config)
    for one, other in zip(together.layers, apart.layers, strict=True):
        assert one.objective == pytest.approx(other.objective, rel=1e-5)
        assert (one.layer, one.iterations, one.test_accuracy) == (
            other.layer,
            other.iterations,
            other.test_accuracy,
        )


def test_the_order_is_a_function_of_the_seed() -> None:
    assert run(easy()) == run(easy())
    assert run(easy()).best.objective != run(easy(), replace(QUICK, seed=1)).best.objective


def test_features_in_16_bits_are_read_a_batch_at_a_time(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    splits = easy()
    parts = {name: getattr(splits, name) for name in ("train", "validation", "test")}
    reads = {name: lambda part=part: iter([part.features]) for name, part in parts.items()}
    kept = cached(reads, tmp_path / "key")
    stored = FeatureSplits(
        **{name: FeatureSplit(kept.features[name], part.labels) for name, part in parts.items()},
        stored_scale=kept.scale,
    )
    assert stored.train.features.dtype == torch.float16
    taken = []
    select = FeatureSplit.select

    def spy(split, images):
        taken.append(1 if isinstance(images, slice) else len(images))
        return select(split, images)

    monkeypatch.setattr(FeatureSplit, "select", spy)
    assert AdamProbe().streams
    found = run(stored).best
    assert max(taken) == 32
    assert found.objective == pytest.approx(run(splits).best.objective, rel=1e-3)


def test_there_is_no_learning_rate_to_select_and_so_no_warning() -> None:
    assert run(easy()).warnings == ()
    assert AdamProbe().label() == "logistic regression (Adam)"


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"lr": 0.0}, "lr is 0.0; allowed: above 0"),
        ({"epochs": 0}, "epochs is 0; allowed: 1 or more"),
        ({"batch_size": 0}, "batch_size is 0; allowed: 1 or more"),
        ({"tolerance": -0.1}, "tolerance is -0.1; allowed: 0 or more and below 1"),
        ({"patience": 0}, "patience is 0; allowed: 1 or more"),
    ],
)
def test_invalid_settings_are_refused(wrong: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        AdamProbe(**wrong)
