"""Folding back: the chosen layer learns from validation too, and nothing is chosen anew."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.linear_model import Ridge as TheirRidge

from isopix.probe import logistic
from isopix.probe.baselines import examine
from isopix.probe.feature_splits import Splits, standardised
from isopix.probe.knn import Knn
from isopix.probe.linear import Lbfgs, Ridge
from isopix.probe.probe import probe
from isopix.probe.refit import fold_back
from isopix.probe.results import LayerScore, ProbeMethod, Protocol
from isopix.probe.sgd import Sgd
from tests.unit.probe.cases import CPU, QUICK, easy, noise, stacked

METHODS = [Lbfgs(), Ridge(), Knn(), Sgd(iterations=100)]
CHOSEN = ("layer", "strength", "rate", "neighbours", "validation")


def best_and_folded(splits: Splits, protocol: Protocol) -> tuple[LayerScore, LayerScore]:
    """The best layer as it was chosen, and with validation folded back."""
    record = probe(splits, protocol, device=CPU)
    alone = splits.layers(record.best, record.best + 1)
    return record.score, fold_back(alone, record.score, protocol, device=CPU)


def whole(splits: Splits) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Train and validation as one, on their own scale, their labels, and test on the same scale."""
    scaled = standardised(splits.folded())
    return scaled.train.features[0].numpy(), scaled.train.labels.numpy(), scaled.test.features[0].numpy()


def accuracy(answers: np.ndarray, splits: Splits) -> float:
    return float((answers == splits.test.labels.numpy()).mean())


def test_logistic_regression_is_scikit_learns_of_both_sets_on_their_common_scale():
    splits = easy()
    _, score = best_and_folded(splits, QUICK)
    x, y, test = whole(splits)
    assert abs(x.mean(0)).max() < 1e-6
    theirs = LogisticRegression(C=1 / (score.strength * len(x)), tol=1e-10, max_iter=10_000).fit(x, y)
    assert score.test == pytest.approx(accuracy(theirs.predict(test), splits))


def test_ridge_is_scikit_learns_of_both_sets_on_their_common_scale():
    splits = easy()
    _, score = best_and_folded(splits, replace(QUICK, method=Ridge()))
    x, y, test = whole(splits)
    theirs = TheirRidge(alpha=score.strength * len(x)).fit(x, np.eye(3)[y])
    assert score.test == pytest.approx(accuracy(theirs.predict(test).argmax(1), splits))


def test_neighbours_are_found_among_both_sets_on_their_common_scale():
    splits = easy()
    _, score = best_and_folded(splits, replace(QUICK, method=Knn()))
    x, y, test = whole(splits)
    x, test = (each / np.linalg.norm(each, axis=1, keepdims=True) for each in (x, test))
    votes = np.zeros((len(test), 3))
    for place, cosines in enumerate(test @ x.T):
        for near in np.argsort(-cosines)[: score.neighbours]:
            votes[place, y[near]] += np.exp(cosines[near] / 0.07)
    assert score.test == pytest.approx(accuracy(votes.argmax(1), splits))


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.kind)
def test_what_was_chosen_stays_and_the_fit_is_another(method: ProbeMethod):
    before, after = best_and_folded(stacked(easy(), easy()), replace(QUICK, method=method))
    assert [getattr(after, name) for name in CHOSEN] == [getattr(before, name) for name in CHOSEN]
    assert after != before


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.kind)
def test_test_labels_choose_nothing(method: ProbeMethod):
    splits, protocol = easy(), replace(QUICK, method=method)
    other = replace(splits, test=replace(splits.test, labels=splits.test.labels.flip(0)))
    (_, one), (_, two) = best_and_folded(splits, protocol), best_and_folded(other, protocol)
    assert [getattr(one, name) for name in CHOSEN] == [getattr(two, name) for name in CHOSEN]
    assert one.objective == two.objective


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.kind)
def test_it_stands_beside_the_probe_and_changes_nothing_of_it(method: ProbeMethod):
    lost = easy().map(lambda split: replace(split, features=noise(split)))
    splits, protocol = stacked(lost, easy()), replace(QUICK, method=method)
    plain = examine(lambda: splits, {}, protocol=protocol, device=CPU)
    evidence = examine(lambda: splits, {}, protocol=replace(protocol, fold_back=True), device=CPU)
    assert plain.folded is None
    assert evidence.folded == best_and_folded(splits, protocol)[1]
    assert evidence.folded.layer == 1
    assert (evidence.network, evidence.controls) == (plain.network, plain.controls)


def test_several_masks_vote_after_folding_too():
    splits = easy()
    again = replace(splits.test, features=splits.test.features + noise(splits.test))
    _, score = best_and_folded(replace(splits, again=(again, again)), replace(QUICK, masks=3))
    assert score.ensemble is not None
    assert 0 < score.ensemble.single < 1


def test_a_fit_that_does_not_converge_is_refused(monkeypatch: pytest.MonkeyPatch):
    splits = easy()
    record = probe(splits, QUICK, device=CPU)
    monkeypatch.setattr(logistic, "fit", partial(logistic.fit, limit=1))
    with pytest.raises(RuntimeError, match="did not converge"):
        fold_back(splits, record.score, QUICK, device=CPU)


def test_validation_images_have_a_say():
    splits = easy()
    wrong = replace(splits.validation, labels=(splits.validation.labels + 1) % 3)
    record = probe(splits, QUICK, device=CPU)
    right = fold_back(splits, record.score, QUICK, device=CPU)
    misled = fold_back(replace(splits, validation=wrong), record.score, QUICK, device=CPU)
    assert misled.test < right.test
