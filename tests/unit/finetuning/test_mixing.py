"""Mixed images, and the soft labels of their loss."""

import pytest
import torch

from isopix.core.random import generator
from isopix.finetuning.classifier import FineTuneTask
from isopix.finetuning.mixing import mix
from tests.laws import cases
from tests.unit.finetuning.test_classifier import BERT, CLASSES, finetune_model

IMAGES = torch.tensor([40, 200], dtype=torch.uint8)[:, None, None, None].expand(2, 3, 20, 30)


def mixed(mixup: float, cutmix: float) -> list[tuple[torch.Tensor, float]]:
    return [mix(IMAGES, mixup, cutmix, generator(0, "mix", step)) for step in range(1000)]


def test_the_weight_of_mixup_is_that_of_the_pixels_and_of_a_beta_distribution() -> None:
    found = mixed(0.8, 0.0)
    for images, own in found[:50]:
        assert images.unique().tolist() == sorted({round(40 + 160 * own), round(200 - 160 * own)})
    weights = torch.tensor([own for _, own in found])
    assert weights.mean().item() == pytest.approx(0.5, abs=0.03)
    assert weights.var().item() == pytest.approx(1 / 4 / (2 * 0.8 + 1), abs=0.01)


def test_the_weight_of_cutmix_is_the_area_that_a_box_leaves() -> None:
    for images, own in mixed(0.0, 1.0):
        cut = (images[0] == 200).all(0)
        assert torch.equal(images[1], torch.where(cut, 40, 200).to(torch.uint8).expand(3, -1, -1))
        assert own == pytest.approx(1 - cut.sum().item() / 600)
        assert cut.sum() == cut.any(1).sum() * cut.any(0).sum()


@pytest.mark.parametrize("weights", [None, "balanced"])
def test_the_loss_is_that_of_weighted_soft_labels_and_evaluations_are_not_mixed(weights: str | None) -> None:
    images, labels = cases.images(BERT, 6), torch.arange(6) % CLASSES
    settings = {"mixup": 0.8, "cutmix": 1.0, "label_smoothing": 0.1, "class_weights": weights}
    task = FineTuneTask(finetune_model(BERT, generative_weight=0.0, **settings), labels=labels)
    batch = task.make_batch(images, labels, generator(1, "batch"))
    *_, own = mix(images, 0.8, 1.0, generator(1, "batch"))
    log_probabilities = task.module.predict(batch.batch.inputs, batch.batch.mask).log_softmax(1)
    soft = 0.9 * torch.eye(CLASSES) + 0.1 / CLASSES
    of_class = torch.tensor([0.75, 0.75, 1.5, 1.5] if weights else [1.0] * 4)
    targets = (of_class[:, None] * soft)[labels] * own + (of_class[:, None] * soft)[labels.flip(0)] * (
        1 - own
    )
    expected = -(targets * log_probabilities).sum(1).mean()
    assert 0 < own < 1
    torch.testing.assert_close(task.losses(batch)["class_nats"], expected)
    plain = FineTuneTask(finetune_model(BERT, generative_weight=0.0))
    found, without = (each.evaluate(images, labels, generator(0, "evaluation")) for each in (task, plain))
    torch.testing.assert_close(found, without)
