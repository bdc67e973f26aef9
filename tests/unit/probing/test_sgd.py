"""SGD tries learning rates in descending order, draws batches by seed, and agrees with L-BFGS."""

from dataclasses import replace

import pytest
import torch

from isopix.data.batches import ShuffledIndices
from isopix.probing import minibatch
from isopix.probing.config import ProbeConfig
from isopix.probing.features import extract_features
from isopix.probing.minibatch import SgdProbe, last_before_rise
from isopix.probing.probe import fit_probe
from isopix.probing.splits import FeatureSplit, FeatureSplits, cached
from tests.unit.probing.cases import CPU, clusters, cut, digits, easy, trained

QUICK = ProbeConfig(method=SgdProbe(iterations=60, batch_size=32), num_resamples=200)
HALF_A_POINT = 0.005


def run(splits, config=QUICK):
    return fit_probe(splits, config, device=CPU)


def test_the_selected_rate_is_the_last_before_the_loss_rises():
    inf, nan = float("inf"), float("nan")
    losses = torch.tensor(
        [[5.0, 2.0, 1.0, 1.5, 0.1], [1, 2, 0, 0, 0], [5, 4, 3, 2, 1], [nan, inf, 3, 2, 4], [3, 3, 2, 2, 9]]
    )
    assert last_before_rise(losses).tolist() == [2, 0, 4, 3, 3]


def test_one_rate_is_the_naive_loop():
    """Momentum, cosine and standardized features, in float64 and one image after another."""
    splits, settings = easy(), SgdProbe(iterations=4, batch_size=32, lr_grid=(0.3,))
    found = run(splits, replace(QUICK, method=settings)).best
    x = splits.train.features[0].double()
    x, labels = (x - x.mean(0)) / x.std(0, correction=0), splits.train.labels
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
    nats = torch.nn.functional.cross_entropy(ones @ weights.T, labels)
    assert found.objective == pytest.approx(float(nats), rel=1e-5)
    assert (found.lr, found.iterations, found.l2) == (0.3, 4, None)


@pytest.fixture(scope="module")
def moved(tmp_path_factory) -> FeatureSplits:
    """Scans of digits and their moves by a pixel, as the embedding of a trained network keeps them."""
    images, labels = digits()
    moves = torch.stack([images.roll(by, (2, 3)) for by in ((0, 0), (0, 1), (1, 0), (0, -1), (-1, 0))], 1)
    network = trained(tmp_path_factory.mktemp("run") / "run")
    ends = {"train": (0, 900), "validation": (900, 1200), "test": (1200, 1797)}

    def read(start, stop):
        return lambda: iter([extract_features(network, moves[start:stop].flatten(0, 1))[:1]])

    kept = cached({name: read(*part) for name, part in ends.items()}, tmp_path_factory.mktemp("kept") / "key")
    parts = {name: labels[slice(*part)].repeat_interleave(5) for name, part in ends.items()}
    return FeatureSplits(
        **{name: FeatureSplit(kept.features[name], parts[name]) for name in ends}, stored_scale=kept.scale
    )


def test_it_is_within_half_a_point_of_l_bfgs_on_cached_features(moved):
    exact = moved.map(lambda split: replace(split, features=split.features.float()))
    reference = run(exact, ProbeConfig(num_resamples=200)).best
    score = run(moved, ProbeConfig(method=SgdProbe(), num_resamples=200)).best
    assert reference.test_accuracy > 0.4
    assert abs(score.test_accuracy - reference.test_accuracy) < HALF_A_POINT


def test_16_bits_are_standardized_a_batch_at_a_time_and_change_almost_nothing(moved):
    whole = moved.map(lambda split: replace(split, features=split.features.double()))
    ours, theirs = run(moved).best, run(whole).best
    assert ours.objective == pytest.approx(theirs.objective, rel=1e-5)
    assert ours.lr == theirs.lr


def test_layers_do_not_depend_on_one_another(monkeypatch):
    features, labels = clusters(300, 6, 3, spread=2.0)
    splits = cut(torch.cat([features, features.flip(2) * features, -features.exp()]), labels)
    together = run(splits)
    monkeypatch.setattr(minibatch, "MAX_BYTES", 1)
    apart = run(splits)
    for one, other in zip(together.layers, apart.layers, strict=True):
        assert one.objective == pytest.approx(other.objective, rel=1e-5)
        assert (one.layer, one.lr, one.test_accuracy) == (other.layer, other.lr, other.test_accuracy)


def test_the_order_is_a_function_of_the_seed():
    assert run(easy()) == run(easy())
    assert run(easy()).best.objective != run(easy(), replace(QUICK, seed=1)).best.objective


def test_classes_need_not_be_counted_from_zero_nor_be_known():
    splits = easy()
    odd = splits.map(lambda split: replace(split, labels=split.labels * 7 + 3))
    assert run(odd) == run(splits)
    unseen = replace(splits, test=replace(splits.test, labels=torch.full_like(splits.test.labels, 9)))
    assert run(unseen).best.test_accuracy == 0


def test_the_smallest_learning_rate_causes_a_warning():
    result = run(easy(), replace(QUICK, method=replace(QUICK.method, lr_grid=(1e-3, 1e-4))))
    assert result.warnings == (
        "layer 0: the selected learning rate is at the edge of the grid (0.0001 to 0.001); to extend it: "
        "isopix probe RUN --method sgd lr_grid=[...]",
    )


@pytest.mark.parametrize(
    "wrong",
    [
        {"iterations": 0},
        {"batch_size": 0},
        {"momentum": 1.0},
        {"lr_grid": ()},
        {"lr_grid": (1.0, 3.0)},
        {"lr_grid": (0.0,)},
    ],
)
def test_invalid_settings_are_refused(wrong):
    with pytest.raises(ValueError, match=f"^{next(iter(wrong))} .* must"):
        SgdProbe(**wrong)
