"""What training is shown and asked, and what evaluations are."""

import pytest
import torch

from isopix.core.random import generator
from isopix.data.patch_augment import PatchNoise
from isopix.finetune.classifier import Classifier, Classify
from isopix.train.tasks import Finetuning, Pretraining
from tests.laws import cases

RECIPE = next(each for each in cases.masked() if each.objective.label_smoothing)
LABELS = torch.tensor([0, 1, 0])


def test_noise_is_in_what_training_shows_and_never_in_what_it_asks() -> None:
    model, x = cases.model(RECIPE), cases.images(RECIPE)
    problem = Pretraining(model, PatchNoise()).prepare(x, None, generator(0, "problem"))
    assert torch.equal(problem.targets, model.network.codec.encode(x))
    assert not torch.equal(problem.inputs, x)


@pytest.mark.parametrize("tuned", [False, True])
def test_an_evaluation_is_without_noise_and_of_hard_labels(tuned: bool) -> None:
    model, x = cases.busy_model(RECIPE), cases.images(RECIPE)
    classifier = Classifier(model, RECIPE.model.width, 2, Classify())
    learner = Finetuning(classifier, PatchNoise()) if tuned else Pretraining(model, PatchNoise())
    problem = model.make_batch(x, generator(0, "problem"))
    grades = learner.grade(x, LABELS, generator(0, "problem"))
    torch.testing.assert_close(grades["loss_nats"], model.eval_loss(problem))
    assert (grades["loss_nats"] - model(problem)).abs() > 1e-4
    lesson = learner.prepare(x, LABELS, generator(0, "problem"))
    shown = lesson.problem.inputs if tuned else lesson.inputs
    assert not torch.equal(shown, x)


def test_soft_labels_are_a_hundredth_of_every_level() -> None:
    model, x = cases.busy_model(RECIPE), cases.images(RECIPE)
    net = model.network
    problem = model.make_batch(x, generator(0, "problem"))
    chances = net(problem.inputs, problem.mask).log_softmax(-1)
    soft = (
        torch.nn.functional.one_hot(problem.targets, net.codec.vocab_size) * 0.99
        + 0.01 / net.codec.vocab_size
    )
    losses = -(soft * chances).sum(-1)
    expected = torch.stack(
        [each[mask[:, 0]].mean() for each, mask in zip(losses, problem.loss_mask, strict=True)]
    )
    torch.testing.assert_close(model(problem), expected.mean(), rtol=1e-5, atol=1e-6)
