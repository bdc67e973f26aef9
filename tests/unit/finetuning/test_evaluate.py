"""Evaluation of a fine-tuned run: best weights, own classes, masks by number; metrics of scikit-learn."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.metrics import confusion_matrix, log_loss, top_k_accuracy_score

from isopix.data.dataset import DataConfig, ImageDataset
from isopix.data.load import load_dataset
from isopix.finetuning import evaluate as evaluating
from isopix.probing.features import draw_masks
from isopix.runs.start import prepare_finetune
from tests.trained import load_finetuned, train

WORDS = ["depth=1", "width=16", "batch_size=16", "steps=60", "evaluate_every=20", "data.augment=none"]
WORDS += ["data.limit=150", "lr=0.03", "generative_weight=0.1"]
CLASSES = 7
DRAW = torch.Generator().manual_seed(0)
LABELS = torch.randint(CLASSES, (400,), generator=DRAW)
LOGITS = torch.randn(3, 400, CLASSES, generator=DRAW)
LOGITS[:, torch.arange(400), LABELS] += 1.0


def finetuned(folder: Path, name: str, *words: str) -> Path:
    recipe = prepare_finetune(name, settings=[*WORDS, *words], from_scratch=True).recipe
    train(recipe, folder)
    return folder


@pytest.fixture(scope="module")
def masked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return finetuned(tmp_path_factory.mktemp("bert") / "ft", "igpt.digits_bert")


@pytest.fixture(scope="module")
def data() -> ImageDataset:
    return load_dataset(DataConfig(source="digits", rows=8, cols=8, limit=150))


def metrics_of(run: Path, data: ImageDataset, masks: int, seed: int = 0) -> evaluating.ClassificationMetrics:
    tuned, how = load_finetuned(run), {"masks": masks, "seed": seed, "precision": "fp32"}
    return evaluating.evaluate_finetuned(tuned.model, tuned.classes, data, **how)


def test_images_of_a_group_are_not_independent() -> None:
    groups = torch.arange(100).repeat_interleave(4)
    logits, labels = LOGITS[:1, :100].repeat_interleave(4, 1), LABELS[:100].repeat_interleave(4)
    alone = evaluating.evaluate_predictions(LOGITS[:1, :100], LABELS[:100], seed=0).interval
    assert evaluating.evaluate_predictions(logits, labels, groups, seed=0).interval == pytest.approx(
        alone, abs=0.01
    )
    ignored = evaluating.evaluate_predictions(logits, labels, seed=0).interval
    assert np.ptp(alone) > 1.5 * np.ptp(ignored)


def test_several_masks_are_the_vote_of_each_alone(masked: Path, data: ImageDataset) -> None:
    found = metrics_of(masked, data, 4)
    made, images = load_finetuned(masked), data.test.images
    alone = []
    for number in range(4):
        mask = draw_masks(made.loaded.model, images, seed=0, purpose=f"evaluate.mask.{number}")
        logits = evaluating.predict_logits(made.model, images, mask, precision="fp32")
        alone.append((logits.argmax(-1) == data.test.labels).double().mean().item())
    assert found.ensemble.single_mask == pytest.approx(sum(alone) / 4)
    assert found == metrics_of(masked, data, 4)


@pytest.mark.parametrize(
    ("settings", "default"),
    [
        (["mask_at_eval=true"], 1),
        (["mask_at_eval=false"], 0),
        (["mask_at_eval=true", "generative_weight=0", "mask_ratio=0"], 0),
        (["mask_at_eval=true", "objective.causal=true"], 1),
    ],
)
def test_by_default_the_recipe_decides_about_masks(tmp_path: Path, settings: list[str], default: int) -> None:
    run = finetuned(tmp_path / "ft", "igpt.digits_bert", *settings, "steps=1", "evaluate_every=1")
    assert evaluating.num_masks(load_finetuned(run).model) == default


def test_metrics_of_one_mask_are_scikit_learns() -> None:
    found = evaluating.evaluate_predictions(LOGITS[:1], LABELS, seed=0)
    predictions, probabilities = LOGITS[0].argmax(-1).numpy(), LOGITS[0].double().softmax(-1).numpy()
    assert [list(row) for row in found.confusion_matrix] == confusion_matrix(LABELS, predictions).tolist()
    assert found.cross_entropy == pytest.approx(log_loss(LABELS, probabilities))
    assert found.top5_accuracy == pytest.approx(top_k_accuracy_score(LABELS, probabilities, k=5))
    for label, accuracy in enumerate(found.per_class_accuracy):
        own = LABELS.numpy() == label
        assert accuracy == pytest.approx((predictions[own] == label).mean())


def test_calibration_is_that_of_numpys_histogram() -> None:
    found = evaluating.evaluate_predictions(LOGITS, LABELS, seed=0)
    mean = LOGITS.double().softmax(-1).mean(0).numpy()
    confidence, correct = mean.max(1), mean.argmax(1) == LABELS.numpy()
    edges = np.linspace(0, 1, 16)
    count, sums, right = (
        np.histogram(confidence, edges, weights=each)[0] for each in (None, confidence, correct.astype(float))
    )
    assert found.calibration_error == pytest.approx(np.abs(right - sums).sum() / 400)
    assert [each.images for each in found.calibration] == [each for each in count if each]


def test_several_masks_are_voted_on_and_averaged_as_by_a_naive_loop() -> None:
    found = evaluating.evaluate_predictions(LOGITS, LABELS, seed=0)
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
    singles = [evaluating.evaluate_predictions(LOGITS[k : k + 1], LABELS, seed=0) for k in range(3)]
    assert found.ensemble.single_mask == pytest.approx(sum(each.accuracy for each in singles) / 3)
    assert found.cross_entropy == pytest.approx(sum(each.cross_entropy for each in singles) / 3)


def test_ties_are_broken_evenly() -> None:
    pairs = torch.tensor([1, 4])[:, None].expand(2, 8 * evaluating.VOTE_BATCH_SIZE).contiguous()
    chosen = evaluating.majority_vote(pairs, seed=0)
    assert set(chosen.tolist()) == {1, 4}
    assert abs((chosen == 1).double().mean().item() - 0.5) < 0.06


def test_five_classes_have_no_top5_and_a_class_without_images_has_no_accuracy() -> None:
    labels = LABELS.clamp(max=3)
    found = evaluating.evaluate_predictions(LOGITS[:1, :, :5], labels, seed=0)
    assert found.top5_accuracy is None
    assert found.per_class_accuracy[4] is None
    assert found.confusion_matrix[4] == (0, 0, 0, 0, 0)
    assert sum(map(sum, found.confusion_matrix)) == found.num_images == 400
