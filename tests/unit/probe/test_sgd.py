"""SGD descends its rates, sees batches by seed alone, and ends where L-BFGS does."""

from dataclasses import replace

import pytest
import torch

from isopix.probe import sgd
from isopix.probe.feature_cache import stored
from isopix.probe.feature_splits import Split, Splits
from isopix.probe.features import extract
from isopix.probe.probe import probe
from isopix.probe.results import Protocol
from isopix.probe.sgd import Sgd, descend
from tests.unit.probe.cases import CPU, clusters, cut, digits, easy, trained

QUICK = Protocol(method=Sgd(iterations=60, batch=32), resamples=200)
HALF_A_POINT = 0.005


def run(splits, protocol=QUICK):
    return probe(splits, protocol, device=CPU)


def test_the_rate_is_the_last_before_the_loss_rises():
    inf, nan = float("inf"), float("nan")
    nats = torch.tensor(
        [[5.0, 2.0, 1.0, 1.5, 0.1], [1, 2, 0, 0, 0], [5, 4, 3, 2, 1], [nan, inf, 3, 2, 4], [3, 3, 2, 2, 9]]
    )
    assert descend(nats).tolist() == [2, 0, 4, 3, 3]


def test_one_rate_is_the_naive_loop():
    """Momentum, cosine and standardised features, in float64 and one image after another."""
    splits, settings = easy(), Sgd(iterations=4, batch=32, rates=(0.3,))
    found = run(splits, replace(QUICK, method=settings)).score
    x = splits.train.features[0].double()
    x, labels = (x - x.mean(0)) / x.std(0, correction=0), splits.train.labels
    order = sgd.ShuffledIndices(len(x), batch_size=32, seed=0, purpose="probe.order")
    weights = torch.zeros(3, 7, dtype=torch.float64)
    speed = torch.zeros_like(weights)
    ones = torch.cat([x, torch.ones(len(x), 1)], 1)
    for step in range(4):
        gradient = torch.zeros_like(weights)
        for image in order.indices(step).tolist():
            error = (weights @ ones[image]).softmax(0)
            error[labels[image]] -= 1
            gradient += torch.outer(error, ones[image]) / 32
        speed = 0.9 * speed + gradient
        weights -= 0.3 * 0.5 * (1 + torch.cos(torch.tensor(torch.pi * step / 4))) * speed
    nats = torch.nn.functional.cross_entropy(ones @ weights.T, labels)
    assert found.objective == pytest.approx(float(nats), rel=1e-5)
    assert (found.rate, found.steps, found.strength) == (0.3, 4, None)


@pytest.fixture(scope="module")
def moved(tmp_path_factory) -> Splits:
    """Scans of digits and their moves by a pixel, as the embedding of a trained network keeps them."""
    images, labels = digits()
    moves = torch.stack([images.roll(by, (2, 3)) for by in ((0, 0), (0, 1), (1, 0), (0, -1), (-1, 0))], 1)
    network = trained(tmp_path_factory.mktemp("run") / "run")
    ends = {"train": (0, 900), "validation": (900, 1200), "test": (1200, 1797)}

    def read(first, end):
        return lambda: iter([extract(network, moves[first:end].flatten(0, 1))[:1]])

    kept = stored({name: read(*part) for name, part in ends.items()}, tmp_path_factory.mktemp("kept") / "key")
    parts = {name: labels[slice(*part)].repeat_interleave(5) for name, part in ends.items()}
    return Splits(**{name: Split(kept.features[name], parts[name]) for name in ends}, frame=kept.frame)


def test_it_is_within_half_a_point_of_l_bfgs_on_cached_features(moved):
    exact = moved.map(lambda split: replace(split, features=split.features.float()))
    reference = run(exact, Protocol(resamples=200)).score
    score = run(moved, Protocol(method=Sgd(), resamples=200)).score
    assert reference.test > 0.4
    assert abs(score.test - reference.test) < HALF_A_POINT


def test_16_bits_are_standardised_a_batch_at_a_time_and_change_next_to_nothing(moved):
    whole = moved.map(lambda split: replace(split, features=split.features.double()))
    ours, theirs = run(moved).score, run(whole).score
    assert ours.objective == pytest.approx(theirs.objective, rel=1e-5)
    assert ours.rate == theirs.rate


def test_layers_do_not_depend_on_their_companions(monkeypatch):
    features, labels = clusters(300, 6, 3, spread=2.0)
    splits = cut(torch.cat([features, features.flip(2) * features, -features.exp()]), labels)
    together = run(splits)
    monkeypatch.setattr(sgd, "BUDGET", 1)
    apart = run(splits)
    for one, other in zip(together.layers, apart.layers, strict=True):
        assert one.objective == pytest.approx(other.objective, rel=1e-5)
        assert (one.layer, one.rate, one.test) == (other.layer, other.rate, other.test)


def test_the_order_is_a_function_of_the_seed():
    assert run(easy()) == run(easy())
    assert run(easy()).score.objective != run(easy(), replace(QUICK, seed=1)).score.objective


def test_classes_need_not_be_counted_from_zero_nor_be_known():
    splits = easy()
    odd = splits.map(lambda split: replace(split, labels=split.labels * 7 + 3))
    assert run(odd) == run(splits)
    unseen = replace(splits, test=replace(splits.test, labels=torch.full_like(splits.test.labels, 9)))
    assert run(unseen).score.test == 0


def test_the_smallest_rate_is_warned_of():
    record = run(easy(), replace(QUICK, method=replace(QUICK.method, rates=(1e-3, 1e-4))))
    assert record.warnings == ("the chosen rate lies on the edge of the grid 0.0001 .. 0.001 in layer 0",)


@pytest.mark.parametrize(
    "wrong", [{"iterations": 0}, {"momentum": 1.0}, {"rates": ()}, {"rates": (1.0, 3.0)}, {"rates": (0.0,)}]
)
def test_settings_that_cannot_be_are_refused(wrong):
    with pytest.raises(ValueError, match=f"^{next(iter(wrong))} .* must"):
        Sgd(**wrong)
