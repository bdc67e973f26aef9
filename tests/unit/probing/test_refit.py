"""Refitting: the selected layer is fitted to train + validation, and nothing is selected again."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

from isopix.probing import logistic
from isopix.probing.base import ProbeMethod
from isopix.probing.baselines import probe_with_baselines
from isopix.probing.config import ProbeConfig
from isopix.probing.knn import KnnProbe
from isopix.probing.linear import LbfgsProbe, RidgeProbe
from isopix.probing.minibatch import AdamProbe, SgdProbe
from isopix.probing.probe import fit_probe, refit_on_validation
from isopix.probing.results import LayerScore
from isopix.probing.splits import FeatureSplits
from tests.unit.probing.cases import CPU, QUICK, easy, noise, stacked, standardize

METHODS = [LbfgsProbe(), RidgeProbe(), KnnProbe(), SgdProbe(iterations=100), AdamProbe(epochs=20)]
SELECTED = ("layer", "l2", "lr", "neighbors", "val_accuracy")


def best_and_refit(splits: FeatureSplits, config: ProbeConfig) -> tuple[LayerScore, LayerScore]:
    """The best layer as it was selected, and refit."""
    result = fit_probe(splits, config, device=CPU)
    alone = splits.select_layers(result.best_index, result.best_index + 1)
    return result.best, refit_on_validation(alone, result.best, config, device=CPU)


def whole(splits: FeatureSplits) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Train and validation as one, on their own scale, their labels, and test on the same scale."""
    scaled = standardize(splits.with_validation_in_train())
    return scaled.train.features[0].numpy(), scaled.train.labels.numpy(), scaled.test.features[0].numpy()


def accuracy(answers: np.ndarray, splits: FeatureSplits) -> float:
    return float((answers == splits.test.labels.numpy()).mean())


def test_logistic_regression_is_scikit_learns_of_both_sets_on_their_common_scale():
    splits = easy()
    _, score = best_and_refit(splits, QUICK)
    x, y, test = whole(splits)
    assert abs(x.mean(0)).max() < 1e-6
    theirs = LogisticRegression(C=1 / (score.l2 * len(x)), tol=1e-10, max_iter=10_000).fit(x, y)
    assert score.test_accuracy == pytest.approx(accuracy(theirs.predict(test), splits))


def test_ridge_is_scikit_learns_of_both_sets_on_their_common_scale():
    splits = easy()
    _, score = best_and_refit(splits, replace(QUICK, method=RidgeProbe()))
    x, y, test = whole(splits)
    theirs = Ridge(alpha=score.l2 * len(x)).fit(x, np.eye(3)[y])
    assert score.test_accuracy == pytest.approx(accuracy(theirs.predict(test).argmax(1), splits))


def test_neighbors_are_found_among_both_sets_on_their_common_scale():
    splits = easy()
    _, score = best_and_refit(splits, replace(QUICK, method=KnnProbe()))
    x, y, test = whole(splits)
    x, test = (each / np.linalg.norm(each, axis=1, keepdims=True) for each in (x, test))
    votes = np.zeros((len(test), 3))
    for place, cosines in enumerate(test @ x.T):
        for near in np.argsort(-cosines)[: score.neighbors]:
            votes[place, y[near]] += np.exp(cosines[near] / 0.07)
    assert score.test_accuracy == pytest.approx(accuracy(votes.argmax(1), splits))


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.kind)
def test_what_was_selected_stays_and_the_fit_changes(method: ProbeMethod):
    before, after = best_and_refit(stacked(easy(), easy()), replace(QUICK, method=method))
    assert [getattr(after, name) for name in SELECTED] == [getattr(before, name) for name in SELECTED]
    assert after != before


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.kind)
def test_test_labels_select_nothing(method: ProbeMethod):
    splits, config = easy(), replace(QUICK, method=method)
    other = replace(splits, test=replace(splits.test, labels=splits.test.labels.flip(0)))
    (_, one), (_, two) = best_and_refit(splits, config), best_and_refit(other, config)
    assert [getattr(one, name) for name in SELECTED] == [getattr(two, name) for name in SELECTED]
    assert one.objective == two.objective


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.kind)
def test_the_rest_of_the_report_does_not_change(method: ProbeMethod):
    lost = easy().map(lambda split: replace(split, features=noise(split)))
    splits, config = stacked(lost, easy()), replace(QUICK, method=method)
    plain = probe_with_baselines(lambda: splits, {}, config=config, device=CPU)
    report = probe_with_baselines(
        lambda: splits, {}, config=replace(config, refit_on_validation=True), device=CPU
    )
    assert plain.refit is None
    assert report.refit == best_and_refit(splits, config)[1]
    assert report.refit.layer == 1
    assert (report.network, report.baselines) == (plain.network, plain.baselines)


def test_several_masks_vote_after_refitting_too():
    splits = easy()
    again = replace(splits.test, features=splits.test.features + noise(splits.test))
    _, score = best_and_refit(replace(splits, extra_views=(again, again)), replace(QUICK, mask_ensemble=3))
    assert score.ensemble is not None
    assert 0 < score.ensemble.single_mask < 1


def test_a_fit_that_does_not_converge_is_refused(monkeypatch: pytest.MonkeyPatch):
    splits = easy()
    result = fit_probe(splits, QUICK, device=CPU)
    monkeypatch.setattr(logistic, "fit_logistic", partial(logistic.fit_logistic, max_iterations=1))
    with pytest.raises(RuntimeError, match="did not converge"):
        refit_on_validation(splits, result.best, QUICK, device=CPU)


def test_validation_labels_matter():
    splits = easy()
    wrong = replace(splits.validation, labels=(splits.validation.labels + 1) % 3)
    result = fit_probe(splits, QUICK, device=CPU)
    correct = refit_on_validation(splits, result.best, QUICK, device=CPU)
    misled = refit_on_validation(replace(splits, validation=wrong), result.best, QUICK, device=CPU)
    assert misled.test_accuracy < correct.test_accuracy
