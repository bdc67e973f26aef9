"""Every method supports every setting: concatenated layers, mask ensembles, a single layer, and baselines."""

from dataclasses import replace

import pytest
import torch

from isopix.core.measurement import EnsembleAccuracy
from isopix.probing.adam import AdamProbe
from isopix.probing.baselines import shuffled_label_baseline
from isopix.probing.feature_splits import FeatureSplits
from isopix.probing.knn import KnnProbe
from isopix.probing.linear import LbfgsProbe, RidgeProbe
from isopix.probing.probe import fit_probe
from isopix.probing.sgd import SgdProbe
from tests.unit.probing.cases import CPU, QUICK, clusters, cut, easy, noise, stacked


def run(splits, config=QUICK):
    return fit_probe(splits, config, device=CPU)


def seven_layers(best: int) -> FeatureSplits:
    """Seven layers of which only one depends on the classes."""
    good = easy()
    uninformative = good.map(lambda split: replace(split, features=noise(split)))
    layers = [good if layer == best else uninformative for layer in range(7)]
    stack = layers[0]
    for layer in layers[1:]:
        stack = stacked(stack, layer)
    return stack


@pytest.mark.parametrize(
    ("best", "layers"), [(0, range(5)), (1, range(5)), (3, range(1, 6)), (5, range(2, 7)), (6, range(2, 7))]
)
def test_five_layers_around_the_best_are_concatenated(best, layers):
    splits = seven_layers(best)
    result = run(splits, replace(QUICK, concat=5))
    assert result.best_index == best
    assert result.concat is not None
    assert result.concat.layers == tuple(layers)
    concatenated = splits.map(
        lambda split: replace(split, features=torch.cat([split.features[i] for i in layers], 1)[None])
    )
    expected = run(concatenated).best
    assert replace(result.concat.score, layer=0) == expected
    assert result.layers == run(splits).layers


def test_fewer_than_five_layers_are_all_concatenated_and_one_is_not():
    pair = stacked(easy(), easy())
    result = run(pair, replace(QUICK, concat=5))
    assert result.concat is not None
    assert result.concat.layers == (0, 1)
    assert run(easy(), replace(QUICK, concat=5)).concat is None
    assert run(pair).concat is None


def test_layers_are_numbered_from_the_first():
    splits = replace(seven_layers(3).select_layers(2, 5), first_layer=2)
    result = run(splits)
    assert [score.layer for score in result.layers] == [2, 3, 4]
    assert (result.best_index, result.best.layer) == (1, 3)


def views(count: int) -> FeatureSplits:
    """Test images in several views, each with other features set to 0."""
    splits = easy()
    draw = torch.Generator().manual_seed(1)

    def drop(split):
        kept = torch.rand(split.features.shape, generator=draw) > 0.4
        return replace(split, features=split.features * kept)

    return replace(
        splits, test=drop(splits.test), extra_views=tuple(drop(splits.test) for _ in range(count - 1))
    )


@pytest.mark.parametrize(
    "method", [LbfgsProbe(), RidgeProbe(), KnnProbe(), SgdProbe(iterations=30), AdamProbe(epochs=5)]
)
def test_one_mask_is_the_single_prediction(method):
    plain = run(views(1), replace(QUICK, method=method)).best
    masked = run(views(1), replace(QUICK, method=method, mask_ensemble=1)).best
    assert plain.ensemble is None
    assert masked.ensemble == EnsembleAccuracy(
        single_mask=plain.test_accuracy, mean_probability=plain.test_accuracy
    )
    assert replace(masked, ensemble=None) == plain


def test_several_masks_vote():
    splits = views(5)
    alone = [
        run(replace(splits, test=view, extra_views=()), replace(QUICK, mask_ensemble=1)).best
        for view in splits.test_views
    ]
    score = run(splits, replace(QUICK, mask_ensemble=5)).best
    assert score.ensemble is not None
    assert score.ensemble.single_mask == pytest.approx(sum(each.test_accuracy for each in alone) / 5)
    assert score.test_accuracy > score.ensemble.single_mask
    assert score.ensemble.mean_probability > score.ensemble.single_mask
    assert score.val_accuracy == alone[0].val_accuracy
    assert score == run(splits, replace(QUICK, mask_ensemble=5)).best


def test_ties_are_broken_by_the_seed_of_the_config():
    splits = views(2)
    scores = {run(splits, replace(QUICK, mask_ensemble=2, seed=seed)).best.test_accuracy for seed in range(4)}
    assert len(scores) > 1


@pytest.mark.parametrize("method", [RidgeProbe(), KnnProbe(), SgdProbe(iterations=200)])
def test_every_method_separates_easy_classes_and_is_clearly_above_shuffled_labels(method):
    splits, config = cut(*clusters(300, 6, 3, spread=1.5)), replace(QUICK, method=method)
    score = run(splits, config).best
    low, high = score.interval
    assert 0 < low < score.test_accuracy < high < 1
    assert shuffled_label_baseline(splits, config, device=CPU).best.interval[1] < low


def test_ridge_selects_its_penalty_on_validation():
    splits, config = easy(), replace(QUICK, method=RidgeProbe())
    accuracies = {
        one: run(splits, replace(config, l2_grid=(one,))).best.val_accuracy for one in QUICK.l2_grid
    }
    score = run(splits, config).best
    assert score.val_accuracy == max(accuracies.values())
    assert score.l2 == max(one for one, accuracy in accuracies.items() if accuracy == score.val_accuracy)


@pytest.mark.parametrize("wrong", [{"mask_ensemble": -1}, {"layer": -1}, {"concat": -1}])
def test_counts_and_layers_are_not_negative(wrong):
    with pytest.raises(ValueError, match="must be at least 0"):
        replace(QUICK, **wrong)


def test_layers_are_concatenated_only_where_all_are_probed():
    with pytest.raises(ValueError, match=r"^concat 5 needs all layers, and layer 1 is set$"):
        replace(QUICK, layer=1, concat=5)
