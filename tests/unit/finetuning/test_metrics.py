"""Metrics equal those of a naive loop over images and of scikit-learn."""

from collections import Counter

import pytest
import torch
from sklearn.metrics import confusion_matrix, log_loss, top_k_accuracy_score

from isopix.core.measurement import EnsembleAccuracy
from isopix.finetuning.metrics import VOTE_BATCH_SIZE, evaluate_predictions, majority_vote

CLASSES = 7
DRAW = torch.Generator().manual_seed(0)
LABELS = torch.randint(CLASSES, (400,), generator=DRAW)
LOGITS = torch.randn(3, 400, CLASSES, generator=DRAW)
LOGITS[:, torch.arange(400), LABELS] += 1.0


def test_one_mask_is_the_single_prediction() -> None:
    found = evaluate_predictions(LOGITS[:1], LABELS, seed=0)
    accuracy = (LOGITS[0].argmax(-1) == LABELS).double().mean().item()
    assert found.accuracy == accuracy
    assert found.ensemble == EnsembleAccuracy(accuracy, accuracy)
    low, high = found.interval
    assert 0 < low < accuracy < high < 1


def test_metrics_of_one_mask_are_scikit_learns() -> None:
    found = evaluate_predictions(LOGITS[:1], LABELS, seed=0)
    predictions, probabilities = LOGITS[0].argmax(-1).numpy(), LOGITS[0].double().softmax(-1).numpy()
    assert [list(row) for row in found.confusion_matrix] == confusion_matrix(LABELS, predictions).tolist()
    assert found.cross_entropy == pytest.approx(log_loss(LABELS, probabilities))
    assert found.top5_accuracy == pytest.approx(top_k_accuracy_score(LABELS, probabilities, k=5))
    for label, accuracy in enumerate(found.per_class_accuracy):
        own = LABELS.numpy() == label
        assert accuracy == pytest.approx((predictions[own] == label).mean())


def test_several_masks_are_voted_on_and_averaged_as_by_a_naive_loop() -> None:
    found = evaluate_predictions(LOGITS, LABELS, seed=0)
    predictions, probabilities = LOGITS.argmax(-1), LOGITS.double().softmax(-1)
    sure = tied = averaged = 0
    for image, label in enumerate(LABELS.tolist()):
        counts = Counter(predictions[:, image].tolist())
        first = [kind for kind, count in counts.items() if count == max(counts.values())]
        sure += first == [label]
        tied += len(first) > 1 and label in first
        sums = [sum(float(probabilities[k, image, kind]) for k in range(3)) for kind in range(CLASSES)]
        averaged += sums.index(max(sums)) == label
    assert tied
    assert sure <= round(found.accuracy * 400) <= sure + tied
    assert found.ensemble.mean_probability == pytest.approx(averaged / 400)
    singles = [evaluate_predictions(LOGITS[k : k + 1], LABELS, seed=0) for k in range(3)]
    assert found.ensemble.single_mask == pytest.approx(sum(each.accuracy for each in singles) / 3)
    assert found.cross_entropy == pytest.approx(sum(each.cross_entropy for each in singles) / 3)


def test_ties_are_broken_evenly_and_by_the_seed() -> None:
    pairs = torch.tensor([1, 4])[:, None].expand(2, 8 * VOTE_BATCH_SIZE).contiguous()
    chosen = majority_vote(pairs, seed=0)
    assert set(chosen.tolist()) == {1, 4}
    assert abs((chosen == 1).double().mean().item() - 0.5) < 0.06
    assert torch.equal(chosen, majority_vote(pairs, seed=0))
    assert not torch.equal(chosen, majority_vote(pairs, seed=1))


def test_five_classes_have_no_top5_and_a_class_without_images_has_no_accuracy() -> None:
    labels = LABELS.clamp(max=3)
    found = evaluate_predictions(LOGITS[:1, :, :5], labels, seed=0)
    assert found.top5_accuracy is None
    assert found.per_class_accuracy[4] is None
    assert found.confusion_matrix[4] == (0, 0, 0, 0, 0)
    assert sum(map(sum, found.confusion_matrix)) == found.num_images == 400


def test_the_interval_resamples_groups_of_images() -> None:
    """Three copies of each image are no more images."""
    copies, groups = LOGITS[:1].repeat(1, 3, 1), torch.arange(400).repeat(3)
    once, thrice, plain = (
        evaluate_predictions(logits, labels, groups, seed=0)
        for logits, labels, groups in (
            (LOGITS[:1], LABELS, None),
            (copies, LABELS.repeat(3), groups),
            (copies, LABELS.repeat(3), None),
        )
    )
    assert thrice.interval == pytest.approx(once.interval)
    assert plain.interval[1] - plain.interval[0] < 0.8 * (once.interval[1] - once.interval[0])
