"""Layer and L2 penalty are selected within the labeled images, and no validation image is read."""

from dataclasses import replace

import pytest
import torch
from isopix.probing.cross_validation import Selected, cross_validate, select
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import PredefinedSplit, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from isopix.probing.config import ProbeConfig
from isopix.probing.low_data import fold_indices, probe_subsets
from isopix.probing.splits import FeatureSplit
from tests.unit.probing.test_low_data import SPLITS, SUBSETS

CPU = torch.device("cpu")
CONFIG = ProbeConfig(l2_grid=(0.001, 1.0), l2_extra=(), num_resamples=10)


def test_the_accuracies_are_scikit_learns_on_the_same_folds() -> None:
    train = SPLITS.train.select(torch.arange(30))
    folds = fold_indices(train.labels, seed=3)
    fold_of = torch.zeros(30, dtype=torch.long)
    for number, fold in enumerate(folds):
        fold_of[fold] = number
    ours = cross_validate(replace(SPLITS, train=train), CONFIG, folds, device=CPU)
    for row, l2 in enumerate((1.0, 0.001)):  # every fold is fitted to 24 images
        theirs = make_pipeline(StandardScaler(), LogisticRegression(C=1 / (l2 * 24), tol=1e-8, max_iter=5000))
        for layer, features in enumerate(train.features.double().numpy()):
            predicted = cross_val_predict(
                theirs, features, train.labels.numpy(), cv=PredefinedSplit(fold_of.numpy())
            )
            accuracy = (torch.from_numpy(predicted) == train.labels).double().mean().item()
            assert ours[row, layer].item() == pytest.approx(accuracy, abs=1e-9)


def test_folds_have_every_image_once_and_classes_evenly() -> None:
    labels = torch.tensor([0] * 7 + [1] * 5 + [2] * 12)
    folds = fold_indices(labels, seed=0)
    assert len(folds) == 5
    assert torch.cat(folds).sort().values.tolist() == list(range(24))
    for label, count in ((0, 7), (1, 5), (2, 12)):
        in_fold = [int((labels[fold] == label).sum()) for fold in folds]
        assert sum(in_fold) == count
        assert max(in_fold) - min(in_fold) <= 1


def test_a_class_with_one_image_cannot_be_cross_validated() -> None:
    with pytest.raises(ValueError, match="two labeled images of each class or more"):
        fold_indices(torch.tensor([0, 0, 1]), seed=0)


def test_the_first_layer_and_the_largest_penalty_of_equals_are_selected() -> None:
    for rows, expected in (
        ([[0.5, 0.9], [0.6, 0.2]], Selected(1, 1.0)),
        ([[0.9, 0.1], [0.9, 0.9]], Selected(0, 1.0)),
        ([[0.1, 0.1], [0.1, 0.8]], Selected(1, 0.001)),
    ):
        assert select(torch.tensor(rows, dtype=torch.float64), CONFIG) == expected


def test_a_subset_chooses_for_itself() -> None:
    """Other subsets change neither its layer nor its error: no other label is used."""
    noisy = SPLITS.train.features.clone()
    noisy[1, SUBSETS[0]] = torch.randn(
        15, 8, generator=torch.Generator().manual_seed(0)
    )  # layer 1 is useless
    splits = replace(SPLITS, train=FeatureSplit(noisy, SPLITS.train.labels))
    alone, *others = (
        probe_subsets(splits, [index], 5, select="cross-validation", config=CONFIG, device=CPU)
        for index in SUBSETS
    )
    together = probe_subsets(splits, SUBSETS, 5, select="cross-validation", config=CONFIG, device=CPU)
    assert alone.layers == (2,)
    assert {each.layers for each in others} == {(1,), (2,)}
    assert together.layers == (2, 1)
    assert together.errors == (*alone.errors, *(each.errors[0] for each in others))


def test_validation_images_are_not_read() -> None:
    validation = SPLITS.validation
    wrong = FeatureSplit(validation.features * 0, (validation.labels + 1) % 3)
    one, other = (
        probe_subsets(splits, SUBSETS, 5, select="cross-validation", config=CONFIG, device=CPU)
        for splits in (SPLITS, replace(SPLITS, validation=wrong))
    )
    assert one == other
    assert (one.layers, one.num_selection_images) == ((1,), 0)
    by_validation = probe_subsets(SPLITS, SUBSETS, 5, config=CONFIG, device=CPU)
    assert by_validation.num_selection_images == 120
