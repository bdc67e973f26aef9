"""What training is shown and asked, and what evaluations are."""

import pytest
import torch

from isopix.core.random import generator
from isopix.data.patch_augment import PatchNoise
from isopix.finetune.classifier import Classifier, Classify
from isopix.train.tasks import Finetuning, Pretraining
from tests.laws import cases

RECIPE = next(each for each in cases.masked() if each.objective.smoothing)
LABELS = torch.tensor([0, 1, 0])


def test_noise_is_in_what_training_shows_and_never_in_what_it_asks() -> None:
    net, x = cases.network(RECIPE), cases.images(RECIPE)
    problem = Pretraining(net, PatchNoise()).prepare(x, None, generator(0, "problem"))
    assert torch.equal(problem.answers, net.codec.encode(x))
    assert not torch.equal(problem.images, x)


@pytest.mark.parametrize("tuned", [False, True])
def test_an_evaluation_is_without_noise_and_of_hard_labels(tuned: bool) -> None:
    net, x = cases.busy(RECIPE), cases.images(RECIPE)
    classifier = Classifier(net, RECIPE.model.width, 2, Classify())
    learner = Finetuning(classifier, PatchNoise()) if tuned else Pretraining(net, PatchNoise())
    problem = net.prepare(x, generator(0, "problem"))
    grades = learner.grade(x, LABELS, generator(0, "problem"))
    torch.testing.assert_close(grades["loss_nats"], net.nats(problem))
    assert (grades["loss_nats"] - net(problem)).abs() > 1e-4
    lesson = learner.prepare(x, LABELS, generator(0, "problem"))
    shown = lesson.problem.images if tuned else lesson.images
    assert not torch.equal(shown, x)


def test_soft_labels_are_a_hundredth_of_every_level() -> None:
    net, x = cases.busy(RECIPE), cases.images(RECIPE)
    problem = net.prepare(x, generator(0, "problem"))
    chances = net.logits(x, problem.hidden).log_softmax(-1)
    soft = (
        torch.nn.functional.one_hot(problem.answers, net.codec.vocab_size) * 0.99
        + 0.01 / net.codec.vocab_size
    )
    losses = -(soft * chances).sum(-1)
    expected = torch.stack(
        [each[mask[:, 0]].mean() for each, mask in zip(losses, problem.graded, strict=True)]
    )
    torch.testing.assert_close(net(problem), expected.mean(), rtol=1e-5, atol=1e-6)
