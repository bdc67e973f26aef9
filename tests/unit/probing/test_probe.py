"""A probe selects on validation, reports on test, warns at grid edges, and refuses unconverged fits."""

from dataclasses import replace
from functools import partial

import pytest
import torch

from isopix.probing import linear, logistic, probe
from isopix.probing.feature_splits import FeatureSplit
from isopix.probing.features import extract_features
from tests.unit.probing.cases import (
    CPU,
    QUICK,
    clusters,
    cut,
    digits,
    easy,
    network,
    noise,
    stacked,
    standardize,
)


def run(splits, config=QUICK):
    return probe.fit_probe(splits, config, device=CPU)


def test_the_best_layer_is_selected_on_validation_and_not_on_test():
    good = easy()
    lucky = replace(good, validation=replace(good.validation, features=noise(good.validation)))
    weak = good.map(lambda split: replace(split, features=split.features + 2 * noise(split)))
    result = run(stacked(lucky, weak))
    assert result.layers[0].test_accuracy > result.layers[1].test_accuracy
    assert result.best_index == 1
    assert result.best is result.layers[1]


def test_the_penalty_is_selected_on_validation():
    splits = easy()
    accuracies = {one: run(splits, replace(QUICK, l2_grid=(one,))).best.val_accuracy for one in QUICK.l2_grid}
    score = run(splits).best
    assert score.val_accuracy == max(accuracies.values())
    assert score.l2 == max(one for one, accuracy in accuracies.items() if accuracy == score.val_accuracy)


def test_a_layer_does_not_depend_on_the_other_layers(monkeypatch):
    images, labels = digits()
    splits = cut(extract_features(network(), images[:500]), labels[:500], 300, 100)
    together = run(splits)
    monkeypatch.setattr(linear, "MAX_BYTES", 1)
    apart = run(splits)
    for one, other in zip(together.layers, apart.layers, strict=True):
        assert one.objective == pytest.approx(other.objective, rel=1e-7)
        assert (one.layer, one.l2, one.test_accuracy) == (other.layer, other.l2, other.test_accuracy)


def test_the_same_probe_gives_the_same_result():
    assert run(easy()) == run(easy())


def test_the_interval_encloses_the_test_accuracy():
    score = run(easy()).best
    low, high = score.interval
    assert 0 < low < score.test_accuracy < high < 1


def test_the_result_counts_images_classes_and_the_majority():
    splits = easy()
    rare = replace(splits, train=FeatureSplit(splits.train.features[:, :-1], splits.train.labels[:-1]))
    result = run(rare)
    assert result.num_images == {"train": 119, "validation": 60, "test": 120}
    assert result.num_classes == 3
    assert result.majority_accuracy == pytest.approx(1 / 3)


def test_classes_need_not_be_counted_from_zero():
    splits = easy()
    odd = splits.map(lambda split: replace(split, labels=split.labels * 7 + 3))
    assert run(odd) == run(splits)


def test_a_class_that_train_does_not_have_is_never_correct():
    splits = easy()
    unseen = replace(splits, test=replace(splits.test, labels=torch.full_like(splits.test.labels, 9)))
    assert run(unseen).best.test_accuracy == 0


def test_train_has_mean_zero_and_standard_deviation_one():
    features, labels = clusters(300, 4, 3)
    train = standardize(cut(features * 50 + 1000, labels)).train.features
    torch.testing.assert_close(train.mean(1), torch.zeros(1, 4), atol=1e-5, rtol=0)
    torch.testing.assert_close(train.std(1, correction=0), torch.ones(1, 4), atol=1e-5, rtol=0)


def test_validation_and_test_do_not_change_the_scale():
    splits = easy()
    louder = replace(splits, test=replace(splits.test, features=splits.test.features * 100))
    assert torch.equal(standardize(louder).train.features, standardize(splits).train.features)


def test_features_that_are_constant_in_train_are_left_out():
    features, labels = clusters(300, 4, 3)
    dead = torch.full((1, 300, 1), 0.1)
    dead[:, 200:] = 5.0
    wider = standardize(cut(torch.cat([features, dead], 2), labels))
    assert wider.test.features[..., -1].abs().max() == 0
    assert (
        run(cut(torch.cat([features, dead], 2), labels)).best.test_accuracy
        == run(cut(features, labels)).best.test_accuracy
    )


def test_a_penalty_at_the_edge_of_the_grid_causes_a_warning():
    config = replace(QUICK, l2_grid=(1e-6, 1e-5))
    edge = (
        "the selected L2 penalty is at the edge of the grid (1e-06 to 1e-05); to extend it: "
        "isopix.probe(run, l2_grid=[...]) in Python"
    )
    assert run(easy(), config).warnings == (f"layer 0: {edge}",)
    twice = easy().map(lambda split: replace(split, features=split.features.repeat(2, 1, 1)))
    assert run(twice, config).warnings == (f"layers 0, 1: {edge}",)


def hard():
    """A layer that needs small penalties: copies of a feature that differ slightly, by class."""
    features, labels = clusters(300, 6, 3, spread=2.0)
    return cut(features[..., :1] + 1e-3 * features, labels)


def test_extra_penalties_are_tried_where_the_smallest_was_selected():
    weak = (1e-7, 1e-6, 1e-5)
    whole = run(hard(), replace(QUICK, l2_grid=(*weak, *QUICK.l2_grid)))
    staged = run(hard(), replace(QUICK, l2_extra=weak))
    assert staged.best.l2 in weak
    assert staged == replace(whole, warnings=staged.warnings)


def test_extra_penalties_are_tried_nowhere_else(monkeypatch):
    easy_beside_hard, shapes = stacked(*(each.map(lambda split: split) for each in (easy(), hard()))), []
    fit = logistic.fit_logistic

    def spy(features, labels, l2, *, num_classes):
        shapes.append(tuple(l2.shape))
        return fit(features, labels, l2, num_classes=num_classes)

    monkeypatch.setattr(logistic, "fit_logistic", spy)
    both = run(easy_beside_hard, replace(QUICK, l2_extra=(1e-6, 1e-5)))
    assert shapes == [(2, 3), (1, 2)]
    assert both.layers[0] == run(easy()).best
    assert (
        both.layers[1].test_accuracy == run(hard(), replace(QUICK, l2_extra=(1e-6, 1e-5))).best.test_accuracy
    )


def test_equally_good_extra_penalties_are_not_selected():
    splits = easy()
    free = replace(QUICK, l2_grid=(1e-7,))
    assert run(splits, replace(free, l2_extra=(1e-8,))).best == run(splits, free).best


def test_one_penalty_is_no_edge():
    assert run(easy(), replace(QUICK, l2_grid=(1e-2,))).warnings == ()


def test_an_unconverged_fit_is_refused(monkeypatch):
    monkeypatch.setattr(logistic, "fit_logistic", partial(logistic.fit_logistic, max_iterations=1))
    start = r"^layer 0: the fit with L2 penalty 0.001 did not converge: "
    with pytest.raises(RuntimeError, match=start + r"gradient norm \S+ after 1 iterations, allowed: \S+$"):
        run(easy(), replace(QUICK, l2_grid=(1e-3,)))


@pytest.mark.parametrize("name", ["train", "validation", "test"])
def test_an_empty_split_is_refused(name):
    splits = easy()
    empty = replace(splits, **{name: FeatureSplit(splits.train.features[:, :0], splits.train.labels[:0])})
    with pytest.raises(
        ValueError, match=f"^the {name} split has no images; a probe needs some in every split$"
    ):
        run(empty)


def test_one_class_is_refused():
    splits = easy().map(lambda split: replace(split, labels=torch.zeros_like(split.labels)))
    with pytest.raises(
        ValueError,
        match=r"^the train split has images of one class only; a probe needs at least two",
    ):
        run(splits)


def test_features_that_are_not_finite_are_refused():
    splits = easy()
    splits.validation.features[0, 3, 2] = torch.nan
    with pytest.raises(RuntimeError, match=r"^features of layer 0 are not finite in the validation split$"):
        run(splits)


@pytest.mark.parametrize(
    ("field", "value"),
    [("l2_grid", ()), ("l2_grid", (0.0,)), ("num_resamples", 0), ("l2_extra", (0.1,)), ("l2_extra", (0.0,))],
)
def test_an_invalid_config_is_refused(field, value):
    with pytest.raises(ValueError, match=f"^{field} .* must be"):
        replace(QUICK, **{field: value})


def test_intervals_resample_groups_of_test_images():
    """Each test image three times: the accuracy is the same, and so is the interval of the originals."""
    splits = easy()
    tripled = replace(
        splits.test.select(torch.arange(len(splits.test)).repeat(3)),
        groups=torch.arange(len(splits.test)).repeat(3),
    )
    once, thrice = run(splits), run(replace(splits, test=tripled))
    assert thrice.best.test_accuracy == pytest.approx(once.best.test_accuracy)
    assert thrice.best.interval == pytest.approx(once.best.interval)
    assert (once.num_test_groups, thrice.num_test_groups) == (None, len(splits.test))
    plain = run(replace(splits, test=replace(tripled, groups=None))).best.interval
    assert plain[1] - plain[0] < 0.8 * (once.best.interval[1] - once.best.interval[0])
