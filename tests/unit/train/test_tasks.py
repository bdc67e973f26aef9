"""Training augments inputs and smooths labels; evaluations do neither."""

import pytest
import torch

from isopix.core.random import generator
from isopix.data.patch_augment import RandomPatchAugment
from isopix.finetuning.classifier import FineTuneModel, FineTuneTask
from isopix.finetuning.config import FineTuneConfig
from isopix.train.tasks import PretrainTask
from tests.laws import cases

RECIPE = next(each for each in cases.masked() if each.objective.label_smoothing)
LABELS = torch.tensor([0, 1, 0])


def test_patch_augmentation_changes_inputs_and_never_targets() -> None:
    model, x = cases.model(RECIPE), cases.images(RECIPE)
    batch = PretrainTask(model, RandomPatchAugment()).make_batch(x, None, generator(0, "batch"))
    assert torch.equal(batch.targets, model.network.codec.encode(x))
    assert not torch.equal(batch.inputs, x)


@pytest.mark.parametrize("finetunes", [False, True])
def test_an_evaluation_is_without_augmentation_and_label_smoothing(finetunes: bool) -> None:
    model, x, augment = cases.busy_model(RECIPE), cases.images(RECIPE), RandomPatchAugment()
    made = FineTuneModel(model, RECIPE.model.width, 2, FineTuneConfig())
    task = FineTuneTask(made, augment) if finetunes else PretrainTask(model, augment)
    plain = model.make_batch(x, generator(0, "batch"))
    metrics = task.evaluate(x, LABELS, generator(0, "batch"))
    torch.testing.assert_close(metrics["loss_nats"], model.eval_loss(plain))
    assert (metrics["loss_nats"] - model(plain)).abs() > 1e-4
    batch = task.make_batch(x, LABELS, generator(0, "batch"))
    inputs = batch.batch.inputs if finetunes else batch.inputs
    assert not torch.equal(inputs, x)
