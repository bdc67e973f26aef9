"""A verdict equals what a naive loop over images finds; one reading alone is the single prediction."""

from collections import Counter

import pytest
import torch
from sklearn.metrics import confusion_matrix, log_loss, top_k_accuracy_score

from isopix.finetune.metrics import BLOCK, judge, majority
from isopix.probe.results import Ensemble

CLASSES = 7
DRAW = torch.Generator().manual_seed(0)
LABELS = torch.randint(CLASSES, (400,), generator=DRAW)
READINGS = torch.randn(3, 400, CLASSES, generator=DRAW)
READINGS[:, torch.arange(400), LABELS] += 1.0


def test_one_reading_is_the_single_prediction() -> None:
    found = judge(READINGS[:1], LABELS, seed=0)
    share = (READINGS[0].argmax(-1) == LABELS).double().mean().item()
    assert found.accuracy == share
    assert found.ensemble == Ensemble(share, share)
    assert 0 < found.low < share < found.high < 1


def test_the_numbers_of_one_reading_are_scikit_learns() -> None:
    found = judge(READINGS[:1], LABELS, seed=0)
    answers, probabilities = READINGS[0].argmax(-1).numpy(), READINGS[0].double().softmax(-1).numpy()
    assert [list(row) for row in found.confusion] == confusion_matrix(LABELS, answers).tolist()
    assert found.class_nats == pytest.approx(log_loss(LABELS, probabilities))
    assert found.top5 == pytest.approx(top_k_accuracy_score(LABELS, probabilities, k=5))
    for kind, share in enumerate(found.per_class):
        own = LABELS.numpy() == kind
        assert share == pytest.approx((answers[own] == kind).mean())


def test_several_readings_are_voted_on_and_averaged_as_by_a_naive_loop() -> None:
    found = judge(READINGS, LABELS, seed=0)
    predictions, probabilities = READINGS.argmax(-1), READINGS.double().softmax(-1)
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
    singles = [judge(READINGS[k : k + 1], LABELS, seed=0) for k in range(3)]
    assert found.ensemble.single == pytest.approx(sum(each.accuracy for each in singles) / 3)
    assert found.class_nats == pytest.approx(sum(each.class_nats for each in singles) / 3)


def test_ties_fall_by_the_seed_alone_and_evenly() -> None:
    pairs = torch.tensor([1, 4])[:, None].expand(2, 8 * BLOCK).contiguous()
    chosen = majority(pairs, seed=0)
    assert set(chosen.tolist()) == {1, 4}
    assert abs((chosen == 1).double().mean().item() - 0.5) < 0.06
    assert torch.equal(chosen, majority(pairs, seed=0))
    assert not torch.equal(chosen, majority(pairs, seed=1))


def test_five_classes_have_no_top_five_and_a_class_without_images_has_no_accuracy() -> None:
    labels = LABELS.clamp(max=3)
    found = judge(READINGS[:1, :, :5], labels, seed=0)
    assert found.top5 is None
    assert found.per_class[4] is None
    assert found.confusion[4] == (0, 0, 0, 0, 0)
    assert sum(map(sum, found.confusion)) == found.images == 400
