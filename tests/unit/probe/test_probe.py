"""A probe chooses on validation, reports on test, says what is doubtful, refuses what is unproven."""

from dataclasses import replace
from functools import partial

import pytest
import torch

from isopix.probe import linear, logistic, probe
from isopix.probe.features import extract
from isopix.probe.probe import Split, standardised
from tests.unit.probe.cases import CPU, QUICK, clusters, cut, digits, easy, network, noise, stacked


def run(splits, protocol=QUICK):
    return probe.probe(splits, protocol, device=CPU)


def test_the_best_layer_is_chosen_on_validation_and_not_on_test():
    good = easy()
    lucky = replace(good, validation=replace(good.validation, features=noise(good.validation)))
    weak = good.map(lambda split: replace(split, features=split.features + 2 * noise(split)))
    record = run(stacked(lucky, weak))
    assert record.layers[0].test > record.layers[1].test
    assert record.best == 1
    assert record.score is record.layers[1]


def test_the_strength_is_chosen_on_validation():
    splits = easy()
    accuracies = {
        one: run(splits, replace(QUICK, strengths=(one,))).score.validation for one in QUICK.strengths
    }
    score = run(splits).score
    assert score.validation == max(accuracies.values())
    assert score.strength == max(one for one, accuracy in accuracies.items() if accuracy == score.validation)


def test_a_layer_does_not_depend_on_its_companions(monkeypatch):
    images, labels = digits()
    splits = cut(extract(network(), images[:500]), labels[:500], 300, 100)
    together = run(splits)
    monkeypatch.setattr(linear, "BUDGET", 1)
    apart = run(splits)
    for one, other in zip(together.layers, apart.layers, strict=True):
        assert one.objective == pytest.approx(other.objective, rel=1e-7)
        assert (one.layer, one.strength, one.test) == (other.layer, other.strength, other.test)


def test_progress_counts_layers(monkeypatch):
    monkeypatch.setattr(linear, "BUDGET", 1)
    splits, seen = easy().map(lambda split: replace(split, features=split.features.expand(3, -1, -1))), []
    probe.probe(splits, QUICK, device=CPU, progress=seen.append)
    assert seen == [1, 2, 3]


def test_the_same_probe_gives_the_same_record():
    assert run(easy()) == run(easy())


def test_the_interval_encloses_the_test_accuracy():
    score = run(easy()).score
    assert 0 < score.low < score.test < score.high < 1


def test_the_record_counts_images_classes_and_the_majority():
    splits = easy()
    rare = replace(splits, train=Split(splits.train.features[:, :-1], splits.train.labels[:-1]))
    record = run(rare)
    assert record.images == {"train": 119, "validation": 60, "test": 120}
    assert record.classes == 3
    assert record.majority == pytest.approx(1 / 3)


def test_classes_need_not_be_counted_from_zero():
    splits = easy()
    odd = splits.map(lambda split: replace(split, labels=split.labels * 7 + 3))
    assert run(odd) == run(splits)


def test_a_class_that_train_never_shows_is_never_right():
    splits = easy()
    unseen = replace(splits, test=replace(splits.test, labels=torch.full_like(splits.test.labels, 9)))
    assert run(unseen).score.test == 0


def test_train_has_mean_zero_and_deviation_one():
    features, labels = clusters(300, 4, 3)
    train = standardised(cut(features * 50 + 1000, labels)).train.features
    torch.testing.assert_close(train.mean(1), torch.zeros(1, 4), atol=1e-5, rtol=0)
    torch.testing.assert_close(train.std(1, correction=0), torch.ones(1, 4), atol=1e-5, rtol=0)


def test_validation_and_test_have_no_say_in_the_scale():
    splits = easy()
    louder = replace(splits, test=replace(splits.test, features=splits.test.features * 100))
    assert torch.equal(standardised(louder).train.features, standardised(splits).train.features)


def test_features_that_train_shows_constant_are_left_out():
    features, labels = clusters(300, 4, 3)
    dead = torch.full((1, 300, 1), 0.1)
    dead[:, 200:] = 5.0
    wider = standardised(cut(torch.cat([features, dead], 2), labels))
    assert wider.test.features[..., -1].abs().max() == 0
    assert (
        run(cut(torch.cat([features, dead], 2), labels)).score.test == run(cut(features, labels)).score.test
    )


def test_a_strength_on_the_edge_of_the_grid_is_warned_of():
    record = run(easy(), replace(QUICK, strengths=(1e-6, 1e-5)))
    assert record.warnings == ("the chosen strength lies on the edge of the grid 1e-06 .. 1e-05 in layer 0",)


def hard():
    """A layer that needs weak strengths: copies of a feature, and differences between them that tell."""
    features, labels = clusters(300, 6, 3, spread=2.0)
    return cut(features[..., :1] + 1e-3 * features, labels)


def test_weaker_strengths_are_tried_where_the_weakest_was_chosen():
    weak = (1e-7, 1e-6, 1e-5)
    whole = run(hard(), replace(QUICK, strengths=(*weak, *QUICK.strengths)))
    staged = run(hard(), replace(QUICK, weaker=weak))
    assert staged.score.strength in weak
    assert staged == replace(whole, warnings=staged.warnings)


def test_weaker_strengths_are_tried_nowhere_else(monkeypatch):
    easy_beside_hard, asked = stacked(*(each.map(lambda split: split) for each in (easy(), hard()))), []
    fit = logistic.fit

    def spy(features, labels, strengths, *, classes):
        asked.append(tuple(strengths.shape))
        return fit(features, labels, strengths, classes=classes)

    monkeypatch.setattr(logistic, "fit", spy)
    both = run(easy_beside_hard, replace(QUICK, weaker=(1e-6, 1e-5)))
    assert asked == [(2, 3), (1, 2)]
    assert both.layers[0] == run(easy()).score
    assert both.layers[1].test == run(hard(), replace(QUICK, weaker=(1e-6, 1e-5))).score.test


def test_equally_good_weaker_strengths_are_left_alone():
    splits = easy()
    free = replace(QUICK, strengths=(1e-7,))
    assert run(splits, replace(free, weaker=(1e-8,))).score == run(splits, free).score


def test_one_strength_is_no_edge():
    assert run(easy(), replace(QUICK, strengths=(1e-2,))).warnings == ()


def test_an_unconverged_fit_is_refused(monkeypatch):
    monkeypatch.setattr(logistic, "fit", partial(logistic.fit, limit=1))
    start = r"^layer 0: the fit with strength 0.001 did not converge; "
    with pytest.raises(RuntimeError, match=start + r"its gradient is \S+ after 1 steps, allowed: \S+$"):
        run(easy(), replace(QUICK, strengths=(1e-3,)))


@pytest.mark.parametrize("name", ["train", "validation", "test"])
def test_an_empty_split_is_refused(name):
    splits = easy()
    empty = replace(splits, **{name: Split(splits.train.features[:, :0], splits.train.labels[:0])})
    with pytest.raises(
        ValueError, match=f"^the {name} split holds no images; a probe needs some in every split$"
    ):
        run(empty)


def test_one_class_is_refused():
    splits = easy().map(lambda split: replace(split, labels=torch.zeros_like(split.labels)))
    with pytest.raises(
        ValueError, match=r"^the train split holds images of one class only; a probe needs two or more$"
    ):
        run(splits)


def test_features_that_are_not_finite_are_refused():
    splits = easy()
    splits.validation.features[0, 3, 2] = torch.nan
    with pytest.raises(RuntimeError, match=r"^features of layer 0 are not finite in the validation split$"):
        run(splits)


@pytest.mark.parametrize(
    ("field", "value"),
    [("strengths", ()), ("strengths", (0.0,)), ("resamples", 0), ("weaker", (0.1,)), ("weaker", (0.0,))],
)
def test_a_protocol_that_cannot_be_followed_is_refused(field, value):
    with pytest.raises(ValueError, match=f"^{field} .* must be"):
        replace(QUICK, **{field: value})
