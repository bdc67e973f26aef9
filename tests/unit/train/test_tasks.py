"""Training augments inputs and smooths labels; evaluations do neither."""

import pytest
import torch

from isopix.core.random import generator
from isopix.data.patch_augment import RandomPatchAugment
from isopix.finetune.classifier import FineTuneModel
from isopix.finetune.config import FineTuneConfig
from isopix.finetune.task import FineTuneTask
from isopix.train.tasks import PretrainTask
from tests.laws import cases

RECIPE = next(each for each in cases.masked() if each.objective.smoothing)
LABELS = torch.tensor([0, 1, 0])


def test_patch_augmentation_changes_inputs_and_never_targets() -> None:
    net, x = cases.network(RECIPE), cases.images(RECIPE)
    problem = PretrainTask(net, RandomPatchAugment()).make_batch(x, None, generator(0, "problem"))
    assert torch.equal(problem.answers, net.codec.encode(x))
    assert not torch.equal(problem.images, x)


@pytest.mark.parametrize("finetunes", [False, True])
def test_an_evaluation_is_without_augmentation_and_label_smoothing(finetunes: bool) -> None:
    net, x = cases.busy(RECIPE), cases.images(RECIPE)
    model = FineTuneModel(net, RECIPE.model.width, 2, FineTuneConfig())
    task = FineTuneTask(model, RandomPatchAugment()) if finetunes else PretrainTask(net, RandomPatchAugment())
    problem = net.prepare(x, generator(0, "problem"))
    metrics = task.evaluate(x, LABELS, generator(0, "problem"))
    torch.testing.assert_close(metrics["loss_nats"], net.nats(problem))
    assert (metrics["loss_nats"] - net(problem)).abs() > 1e-4
    batch = task.make_batch(x, LABELS, generator(0, "problem"))
    inputs = batch.batch.images if finetunes else batch.images
    assert not torch.equal(inputs, x)


def test_smoothed_labels_have_a_hundredth_of_uniform() -> None:
    net, x = cases.busy(RECIPE), cases.images(RECIPE)
    problem = net.prepare(x, generator(0, "problem"))
    log_probabilities = net.logits(x, problem.hidden).log_softmax(-1)
    smoothed = (
        torch.nn.functional.one_hot(problem.answers, net.codec.vocab_size) * 0.99
        + 0.01 / net.codec.vocab_size
    )
    losses = -(smoothed * log_probabilities).sum(-1)
    expected = torch.stack(
        [each[mask[:, 0]].mean() for each, mask in zip(losses, problem.graded, strict=True)]
    )
    torch.testing.assert_close(net(problem), expected.mean(), rtol=1e-5, atol=1e-6)
