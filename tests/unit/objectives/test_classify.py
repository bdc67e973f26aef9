"""Joint fine-tuning is the sum of its two losses, each with its gradient."""

import math

import pytest
import torch
from torch.nn import functional as F

from isopix.core.random import generator
from isopix.objectives.classify import Classifier, Classify, Lesson
from isopix.recipes.recipe import Recipe
from tests.laws import cases

CLASSES = 4
AR, BERT = cases.autoregressive()[0], cases.masked()[0]
both = pytest.mark.parametrize("recipe", [AR, BERT], ids=["ar", "bert"])


def classifier(recipe: Recipe, **settings: object) -> Classifier:
    """A network in which everything matters, and a head that is no longer zero."""
    made = Classifier(cases.busy(recipe), recipe.width, CLASSES, Classify(**settings))
    torch.nn.init.normal_(made.head.weight, generator=generator(0, "head"))
    return made


def lesson(made: Classifier, recipe: Recipe, count: int = 6) -> Lesson:
    labels = torch.arange(count) % CLASSES
    return made.prepare(cases.images(recipe, count), labels, generator(0, "lesson"))


def expected_class_loss(made: Classifier, posed: Lesson, layer: int) -> torch.Tensor:
    """From the features that probes read; shares nothing with the classifier but its head."""
    problem = posed.problem
    tokens = list(made.network.backbone.features(problem.images, problem.hidden))[layer]
    return F.cross_entropy(tokens.mean(1) @ made.head.weight.T, posed.labels)


@both
def test_before_training_every_class_is_equally_likely(recipe: Recipe) -> None:
    made = Classifier(cases.network(recipe), recipe.width, CLASSES, Classify(generative_weight=0.0))
    assert made(lesson(made, recipe)).item() == pytest.approx(math.log(CLASSES), rel=1e-6)


@both
@pytest.mark.parametrize("layer", [None, 0, 1])
@pytest.mark.parametrize("weight", [0.0, 0.5, 1.0, "inf"])
def test_the_joint_loss_and_gradient_are_the_sums_of_both(
    recipe: Recipe, layer: int | None, weight: float | str
) -> None:
    made = classifier(recipe, layer=layer, generative_weight=weight)
    posed = lesson(made, recipe)
    made.requires_grad_(True)
    parameters = dict(made.named_parameters())
    generative = made.network(posed.problem)
    chosen = expected_class_loss(made, posed, recipe.depth if layer is None else layer)
    of_codes = torch.autograd.grad(generative, list(parameters.values()), allow_unused=True)
    of_classes = torch.autograd.grad(chosen, list(parameters.values()), allow_unused=True)
    factors = (1.0, 0.0) if weight == "inf" else (float(weight), 1.0)
    torch.testing.assert_close(made(posed), factors[0] * generative + factors[1] * chosen)
    joint = torch.autograd.grad(made(posed), list(parameters.values()), allow_unused=True)
    for name, one, other, found in zip(parameters, of_codes, of_classes, joint, strict=True):
        nothing = torch.zeros_like(parameters[name])
        parts = [nothing if each is None else each for each in (one, other, found)]
        torch.testing.assert_close(
            parts[2], factors[0] * parts[0] + factors[1] * parts[1], msg=name, rtol=1e-4, atol=1e-6
        )


@both
@pytest.mark.parametrize(("weight", "layer"), [(0.0, 1), (0.0, None), (1.0, 1), ("inf", None)])
def test_what_is_trained_is_what_the_loss_depends_on(
    recipe: Recipe, weight: float | str, layer: int | None
) -> None:
    made = classifier(recipe, generative_weight=weight, layer=layer)
    made(lesson(made, recipe)).backward()
    for name, parameter in made.named_parameters():
        assert parameter.requires_grad == (parameter.grad is not None and bool(parameter.grad.any())), name


@both
def test_pieces_of_a_lesson_add_up_to_its_loss(recipe: Recipe) -> None:
    made = classifier(recipe, dropout=0.5)
    posed = lesson(made, recipe, 5)
    torch.testing.assert_close(sum(made(piece) for piece in posed.pieces(3)), made(posed))


def test_dropout_is_drawn_with_the_lesson_and_keeps_the_mean() -> None:
    made, without = classifier(AR, dropout=0.25), classifier(AR)
    one, same = (lesson(made, AR, 400).kept for _ in range(2))
    assert torch.equal(one, same)
    assert one.unique().tolist() == pytest.approx([0, 4 / 3])
    assert one.mean().item() == pytest.approx(1, abs=0.02)
    posed = lesson(made, AR)
    assert made(posed) != without(lesson(without, AR))
    assert made.grade(posed) == without.grade(posed), "held-out images are judged with all features"


@pytest.mark.parametrize("masked", [True, False])
def test_a_masked_network_is_judged_with_its_masks_or_without(masked: bool) -> None:
    made = classifier(BERT, masked=masked)
    posed = lesson(made, BERT)
    hidden = posed.problem.hidden if masked else None
    logits = made.answer(posed.problem.images, hidden)
    grades = made.grade(posed)
    torch.testing.assert_close(grades["class_nats"], F.cross_entropy(logits, posed.labels))
    assert grades["accuracy"] == (logits.argmax(1) == posed.labels).float().mean()
    torch.testing.assert_close(grades["loss_nats"], made.network(posed.problem))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"layer": 3}, r"classify.layer 3 does not exist; allowed: 0 to 2"),
        ({"generative_weight": -1.0}, r"generative_weight -1.0 must be at least 0"),
        ({"dropout": 1.0}, r"dropout 1.0 must lie in \[0, 1\)"),
        ({"patience": 0}, r"patience 0 must be at least 1"),
    ],
)
def test_what_cannot_be_is_refused(settings: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        classifier(AR, **settings)
