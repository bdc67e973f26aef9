"""Every method votes over masks, and refits on train and validation without selecting anything again."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression, Ridge

from isopix.core.random import generator
from isopix.probing.base import FittedProbe, ProbeMethod
from isopix.probing.config import ProbeConfig
from isopix.probing.probe import refit_on_validation, vote
from isopix.probing.results import LayerScore
from isopix.probing.splits import FeatureSplit, FeatureSplits
from isopix.storage.result import EnsembleAccuracy
from tests.unit.probing.cases import CONFIG, CPU, METHODS, easy, noise, run, standardize

each_method = pytest.mark.parametrize("method", METHODS, ids=lambda method: method.kind)


def views(count: int) -> FeatureSplits:
    """Test images in several views, each with other features set to 0."""
    splits = easy()
    draw = torch.Generator().manual_seed(1)

    def drop(split: FeatureSplit) -> FeatureSplit:
        return replace(
            split, features=split.features * (torch.rand(split.features.shape, generator=draw) > 0.4)
        )

    return replace(
        splits, test=drop(splits.test), extra_views=tuple(drop(splits.test) for _ in range(count - 1))
    )


@each_method
def test_one_mask_is_the_single_prediction(method: ProbeMethod) -> None:
    plain = run(views(1), method).best
    masked = run(views(1), method, replace(CONFIG, mask_ensemble=1)).best
    assert plain.ensemble is None
    assert masked.ensemble == EnsembleAccuracy(plain.test_accuracy, plain.test_accuracy)
    assert replace(masked, ensemble=None) == plain


def test_several_masks_vote_and_the_seed_breaks_ties() -> None:
    splits, five = views(5), replace(CONFIG, mask_ensemble=5)
    alone = [run(replace(splits, test=view, extra_views=())).best for view in splits.test_views]
    score = run(splits, config=five).best
    assert score.ensemble is not None
    assert score.ensemble.single_mask == pytest.approx(sum(each.test_accuracy for each in alone) / 5)
    assert score.test_accuracy > score.ensemble.single_mask
    assert score.ensemble.mean_probability > score.ensemble.single_mask
    assert score.val_accuracy == alone[0].val_accuracy
    two = replace(CONFIG, mask_ensemble=2)
    found = {run(views(2), config=replace(two, seed=seed)).best.test_accuracy for seed in range(4)}
    assert len(found) > 1


def test_only_a_most_frequent_prediction_wins_and_ties_are_broken_evenly() -> None:
    draw = torch.Generator().manual_seed(3)
    predictions = torch.randint(4, (5, 200), generator=draw)
    for image, winner in enumerate(vote(predictions, generator(0, "test")).tolist()):
        counts = Counter(predictions[:, image].tolist())
        assert counts[winner] == max(counts.values())
    tied = torch.tensor([0, 0, 2, 2, 5])[:, None].expand(-1, 4000)
    counts = vote(tied, generator(0, "test")).bincount(minlength=6).tolist()
    assert counts[0] + counts[2] == 4000
    assert abs(counts[0] - 2000) < 4 * 1000**0.5  # four standard deviations


def test_confident_predictions_outweigh_uncertain_ones_in_the_mean_alone() -> None:
    class Given(ProbeMethod):
        """Features that are probabilities."""

        kind = "given"

        def fit_layers(self, problem):
            yield FittedProbe(torch.ones(1), lambda features: features)

    train = FeatureSplit(torch.eye(2)[None], torch.arange(2))
    given = torch.tensor([[0.55, 0.45], [0.55, 0.45], [0.0, 1.0]])
    test, *others = (FeatureSplit(each[None, None], torch.tensor([1])) for each in given)
    splits = FeatureSplits(train, train, test, tuple(others))
    score = run(splits, Given(), replace(CONFIG, mask_ensemble=3)).best
    assert (score.test_accuracy, score.ensemble) == (0, EnsembleAccuracy(pytest.approx(1 / 3), 1))


def best_and_refit(
    splits: FeatureSplits, method: ProbeMethod, config: ProbeConfig = CONFIG
) -> tuple[LayerScore, LayerScore]:
    """The best layer as it was selected, and refit."""
    result = run(splits, method, config)
    alone = splits.select_layers(result.best_index, result.best_index + 1)
    return result.best, refit_on_validation(alone, result.best, method, config, device=CPU)


def correct_of(method: ProbeMethod, score: LayerScore, splits: FeatureSplits) -> np.ndarray:
    """What scikit-learn, or a loop over neighbors, gets right when fitted to both sets together."""
    scaled = standardize(splits.with_validation_in_train())
    x, test = scaled.train.features[0].numpy(), scaled.test.features[0].numpy()
    y, [selected] = scaled.train.labels.numpy(), score.selected.values()
    if method.kind == "lbfgs":
        model = LogisticRegression(C=1 / (selected * len(x)), tol=1e-10, max_iter=10_000)
        predicted = model.fit(x, y).predict(test)
    elif method.kind == "ridge":
        predicted = Ridge(alpha=selected * len(x)).fit(x, np.eye(3)[y]).predict(test).argmax(1)
    else:
        x, test = (each / np.linalg.norm(each, axis=1, keepdims=True) for each in (x, test))
        votes = np.zeros((len(test), 3))
        for place, cosines in enumerate(test @ x.T):
            for near in np.argsort(-cosines)[:selected]:
                votes[place, y[near]] += np.exp(cosines[near] / 0.07)
        predicted = votes.argmax(1)
    return predicted == splits.test.labels.numpy()


@pytest.mark.parametrize("method", METHODS[:3], ids=lambda method: method.kind)
def test_a_refit_is_of_both_sets_on_their_common_scale(method: ProbeMethod) -> None:
    splits = easy()
    _, score = best_and_refit(splits, method)
    assert score.test_accuracy == pytest.approx(correct_of(method, score, splits).mean())


@each_method
def test_what_was_selected_stays_in_a_refit_and_test_labels_select_nothing(method: ProbeMethod) -> None:
    splits = easy()
    flipped = replace(splits, test=replace(splits.test, labels=splits.test.labels.flip(0)))
    (before, after), (_, other) = best_and_refit(splits, method), best_and_refit(flipped, method)
    for each in (after, other):
        for name in ("layer", "selected", "val_accuracy"):
            assert getattr(each, name) == getattr(before, name)
    assert after != before
    assert other.fit == after.fit
    views = replace(
        splits, extra_views=(replace(splits.test, features=splits.test.features + noise(splits.test)),)
    )
    _, voted = best_and_refit(views, method, replace(CONFIG, mask_ensemble=2))
    assert voted.ensemble is not None
