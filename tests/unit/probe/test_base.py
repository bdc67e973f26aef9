"""Every method serves every protocol: joined layers, masks that vote, one layer alone, and the controls."""

from dataclasses import replace

import pytest
import torch

from isopix.probe.baselines import chance
from isopix.probe.knn import Knn
from isopix.probe.linear import Lbfgs, Ridge
from isopix.probe.probe import Splits, probe
from isopix.probe.results import Ensemble
from isopix.probe.sgd import Sgd
from tests.unit.probe.cases import CPU, QUICK, clusters, cut, easy, noise, stacked


def run(splits, protocol=QUICK):
    return probe(splits, protocol, device=CPU)


def five_and_two(best: int) -> Splits:
    """Seven layers of which one alone tells the classes."""
    good = easy()
    hidden = good.map(lambda split: replace(split, features=noise(split)))
    layers = [good if layer == best else hidden for layer in range(7)]
    stack = layers[0]
    for layer in layers[1:]:
        stack = stacked(stack, layer)
    return stack


@pytest.mark.parametrize(
    ("best", "joined"), [(0, range(5)), (1, range(5)), (3, range(1, 6)), (5, range(2, 7)), (6, range(2, 7))]
)
def test_five_layers_around_the_best_are_joined(best, joined):
    splits = five_and_two(best)
    record = run(splits, replace(QUICK, layers="best5"))
    assert record.best == best
    assert record.joined is not None
    assert record.joined.layers == tuple(joined)
    concatenated = splits.map(
        lambda split: replace(split, features=torch.cat([split.features[i] for i in joined], 1)[None])
    )
    expected = run(concatenated).score
    assert replace(record.joined.score, layer=0) == expected
    assert record.layers == run(splits).layers


def test_fewer_than_five_layers_are_all_joined_and_one_is_not():
    pair = stacked(easy(), easy())
    record = run(pair, replace(QUICK, layers="best5"))
    assert record.joined is not None
    assert record.joined.layers == (0, 1)
    assert run(easy(), replace(QUICK, layers="best5")).joined is None
    assert run(pair).joined is None


def test_layers_go_by_the_number_of_the_first():
    splits = replace(five_and_two(3).layers(2, 5), first=2)
    record = run(splits)
    assert [score.layer for score in record.layers] == [2, 3, 4]
    assert (record.best, record.score.layer) == (1, 3)


def veiled(count: int) -> Splits:
    """Test images that were read several times, each time with other features lost."""
    splits = easy()
    draw = torch.Generator().manual_seed(1)

    def lose(split):
        kept = torch.rand(split.features.shape, generator=draw) > 0.4
        return replace(split, features=split.features * kept)

    return replace(splits, test=lose(splits.test), again=tuple(lose(splits.test) for _ in range(count - 1)))


@pytest.mark.parametrize("method", [Lbfgs(), Ridge(), Knn(), Sgd(iterations=30)])
def test_one_mask_is_the_single_prediction(method):
    plain = run(veiled(1), replace(QUICK, method=method)).score
    masked = run(veiled(1), replace(QUICK, method=method, masks=1)).score
    assert plain.ensemble is None
    assert masked.ensemble == Ensemble(single=plain.test, mean_probability=plain.test)
    assert replace(masked, ensemble=None) == plain


def test_several_masks_vote():
    splits = veiled(5)
    alone = [
        run(replace(splits, test=reading, again=()), replace(QUICK, masks=1)).score
        for reading in splits.readings
    ]
    score = run(splits, replace(QUICK, masks=5)).score
    assert score.ensemble is not None
    assert score.ensemble.single == pytest.approx(sum(each.test for each in alone) / 5)
    assert score.test > score.ensemble.single
    assert score.ensemble.mean_probability > score.ensemble.single
    assert score.validation == alone[0].validation
    assert score == run(splits, replace(QUICK, masks=5)).score


def test_ties_are_broken_by_the_seed_of_the_protocol():
    splits = veiled(2)
    scores = {run(splits, replace(QUICK, masks=2, seed=seed)).score.test for seed in range(4)}
    assert len(scores) > 1


@pytest.mark.parametrize("method", [Ridge(), Knn(), Sgd(iterations=200)])
def test_every_method_tells_easy_classes_and_is_clearly_above_shuffled_labels(method):
    splits, protocol = cut(*clusters(300, 6, 3, spread=1.5)), replace(QUICK, method=method)
    score = run(splits, protocol).score
    assert 0 < score.low < score.test < score.high < 1
    assert chance(splits, protocol, device=CPU).score.high < score.low


def test_ridge_chooses_its_strength_on_validation():
    splits, protocol = easy(), replace(QUICK, method=Ridge())
    accuracies = {
        one: run(splits, replace(protocol, strengths=(one,))).score.validation for one in QUICK.strengths
    }
    score = run(splits, protocol).score
    assert score.validation == max(accuracies.values())
    assert score.strength == max(one for one, accuracy in accuracies.items() if accuracy == score.validation)


@pytest.mark.parametrize("wrong", [{"masks": -1}, {"layers": -1}])
def test_masks_and_layers_are_not_negative(wrong):
    with pytest.raises(ValueError, match="must be at least 0"):
        replace(QUICK, **wrong)
