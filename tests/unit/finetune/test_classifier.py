"""Joint fine-tuning is the sum of its two losses, each with its gradient."""

import math

import pytest
import torch
from torch.nn import functional as F

from isopix.core.random import generator
from isopix.finetune.classifier import Classifier, Classify, Lesson
from isopix.model.masking import DropMaskingSpec
from isopix.recipes.recipe import Recipe
from tests.laws import cases

CLASSES = 4
AR, BERT = cases.autoregressive()[0], cases.masked()[0]
DROPS = next(case for case in cases.masked() if case.objective.corruption == DropMaskingSpec())
SWAPS = next(case for case in cases.masked() if case.objective.random_rate)
both = pytest.mark.parametrize("recipe", [AR, BERT], ids=["ar", "bert"])


def classifier(recipe: Recipe, **settings: object) -> Classifier:
    """A network in which everything matters, and a head that is no longer zero."""
    made = Classifier(cases.busy_model(recipe), recipe.model.width, CLASSES, Classify(**settings))
    torch.nn.init.normal_(made.head.weight, generator=generator(0, "head"))
    return made


def lesson(made: Classifier, recipe: Recipe, count: int = 6) -> Lesson:
    labels = torch.arange(count) % CLASSES
    return made.prepare(cases.images(recipe, count), labels, generator(0, "lesson"))


def expected_class_loss(made: Classifier, posed: Lesson, layer: int) -> torch.Tensor:
    """From the features that probes read; shares nothing with the classifier but its head."""
    problem = posed.problem
    tokens = list(made.network.backbone.features(problem.inputs, problem.mask))[layer]
    return F.cross_entropy(tokens.mean(1) @ made.head.weight.T, posed.labels)


@both
def test_before_training_every_class_is_equally_likely(recipe: Recipe) -> None:
    made = Classifier(cases.model(recipe), recipe.model.width, CLASSES, Classify(generative_weight=0.0))
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
    generative = made.objective.loss(made.network, posed.problem)
    chosen = expected_class_loss(made, posed, recipe.model.depth if layer is None else layer)
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
    torch.testing.assert_close(sum(made(piece) for piece in posed.chunks(3)), made(posed))


def test_dropout_is_drawn_with_the_lesson_and_keeps_the_mean() -> None:
    made, without = classifier(AR, dropout=0.25), classifier(AR)
    one, same = (lesson(made, AR, 400).kept for _ in range(2))
    assert torch.equal(one, same)
    assert one.unique().tolist() == pytest.approx([0, 4 / 3])
    assert one.mean().item() == pytest.approx(1, abs=0.02)
    posed = lesson(made, AR)
    assert made(posed) != without(lesson(without, AR))
    images = cases.images(AR, 6)
    assert made.grade(posed, images) == without.grade(posed, images), "held out, all features are there"


@pytest.mark.parametrize("masked", [True, False])
def test_a_masked_network_is_judged_with_its_masks_or_without(masked: bool) -> None:
    made = classifier(BERT, masked=masked)
    posed = lesson(made, BERT)
    hidden = posed.problem.mask if masked else None
    logits = made.answer(posed.problem.inputs, hidden)
    grades = made.grade(posed, cases.images(BERT, 6))
    torch.testing.assert_close(grades["class_nats"], F.cross_entropy(logits, posed.labels))
    assert grades["accuracy"] == (logits.argmax(1) == posed.labels).float().mean()
    torch.testing.assert_close(grades["loss_nats"], made.objective.loss(made.network, posed.problem))


@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("recipe", [AR, BERT, DROPS, SWAPS], ids=["ar", "zero", "drop", "token"])
def test_where_codes_are_left_behind_classes_alone_are_graded_and_alike(recipe: Recipe, masked: bool) -> None:
    joint, alone = (
        classifier(recipe, generative_weight=weight, masked=masked, layer=1) for weight in (1.0, 0.0)
    )
    posed, images = lesson(joint, recipe), cases.images(recipe, 6)
    both, one = joint.grade(posed, images), alone.grade(posed, images)
    assert set(both) - set(one) == {"loss_nats"}
    torch.testing.assert_close(one, {name: both[name] for name in one})


def test_without_masks_the_images_are_judged_as_they_are() -> None:
    """Where patches have been swapped, the problem shows others."""
    made = classifier(SWAPS, masked=False)
    images, posed = cases.images(SWAPS, 6), lesson(made, SWAPS)
    assert not torch.equal(posed.problem.inputs, images)
    found = made.grade(posed, images)["class_nats"]
    torch.testing.assert_close(found, F.cross_entropy(made.answer(images), posed.labels))


def test_soft_labels_are_trained_and_hard_ones_graded() -> None:
    """Of C classes the answer has 1 - s + s / C, and each other one s / C."""
    made = classifier(AR, generative_weight=0.0, smoothing=0.2)
    posed = lesson(made, AR)
    logs = made.answer(posed.problem.inputs).double().log_softmax(1)
    answered = logs[torch.arange(6), posed.labels].mean()
    torch.testing.assert_close(made(posed).double(), -0.8 * answered - 0.2 * logs.mean())
    torch.testing.assert_close(made.grade(posed, cases.images(AR, 6))["class_nats"].double(), -answered)


@pytest.mark.parametrize("recipe", [BERT, DROPS, SWAPS], ids=["zero", "drop", "token"])
def test_a_share_of_single_positions_is_hidden_in_place_of_the_objective_s_mask(recipe: Recipe) -> None:
    plain, made = classifier(recipe), classifier(recipe, hide=0.25)
    images, positions = cases.images(recipe, 4), recipe.grid.positions
    posed = made.prepare(images, torch.zeros(4, dtype=torch.long), generator(0, "lesson")).problem
    assert posed.loss_mask.sum((1, 2)).tolist() == [round(0.25 * positions)] * 4
    assert made.objective.corruption == recipe.objective.corruption
    assert plain.objective == recipe.objective
    assert set(dict(made.named_parameters())) == set(dict(plain.named_parameters()))


def test_classes_are_learnt_from_what_is_not_hidden_and_judged_from_all() -> None:
    made = classifier(DROPS, generative_weight=0.0, hide=0.25, masked=False)
    images = cases.images(DROPS, 6)
    posed = made.prepare(images, torch.arange(6) % CLASSES, generator(0, "lesson"))
    other = made.network.inputs_of(cases.flipped(images, posed.problem.mask))
    veiled = posed.problem._replace(inputs=other)
    assert torch.equal(made(posed._replace(problem=veiled)), made(posed))
    expected = F.cross_entropy(made.answer(made.network.inputs_of(images)), posed.labels)
    torch.testing.assert_close(made.grade(posed, images)["class_nats"], expected)


def test_with_nothing_hidden_classes_are_learnt_and_judged_from_whole_images() -> None:
    """Not from swapped patches either; the vector that stands for hidden ones has no part in it."""
    made = classifier(SWAPS, generative_weight=0.0, hide=0.0)
    images = cases.images(SWAPS, 6)
    posed = made.prepare(images, torch.arange(6) % CLASSES, generator(0, "lesson"))
    assert posed.problem.mask is None
    assert torch.equal(posed.problem.inputs, made.network.inputs_of(images))
    expected = F.cross_entropy(made.answer(made.network.inputs_of(images)), posed.labels)
    torch.testing.assert_close(made(posed), expected)
    torch.testing.assert_close(made.grade(posed, images)["class_nats"], expected)
    made(posed).backward()
    trained = {name for name, parameter in made.named_parameters() if parameter.requires_grad}
    assert trained == {name for name, parameter in made.named_parameters() if parameter.grad is not None}
    assert "network.backbone.masking.token" not in trained


def test_the_residual_block_is_a_bottleneck_of_each_vector_alone() -> None:
    """x + W3 f(W2 f(W1 f(x))), f a ReLU behind a norm over groups, W of standardised rows; in float64."""
    made = classifier(AR, generative_weight=0.0, residual_block=True).double()
    pooled = torch.randn(5, AR.model.width, generator=generator(0, "pooled"), dtype=torch.float64)
    block = made.head.block

    def rectified(x: torch.Tensor, groups: int) -> torch.Tensor:
        grouped = x.view(len(x), groups, -1)
        spread = (grouped.var(2, correction=0, keepdim=True) + 1e-5).sqrt()
        return ((grouped - grouped.mean(2, keepdim=True)) / spread).view_as(x).clamp(min=0)

    def matrix(weight: torch.Tensor) -> torch.Tensor:
        rows = weight.flatten(1) - weight.flatten(1).mean(1, keepdim=True)
        return rows / rows.norm(dim=1, keepdim=True)

    inner = pooled
    for groups, conv in ((4, block.conv1), (1, block.conv2), (1, block.conv3)):
        inner = rectified(inner, groups) @ matrix(conv.weight).T
    torch.testing.assert_close(made.head(pooled), (pooled + inner) @ made.head.weight.T)


@both
def test_with_a_residual_block_every_class_is_still_equally_likely_at_first(recipe: Recipe) -> None:
    settings = Classify(generative_weight=0.0, residual_block=True, smoothing=0.1)
    made = Classifier(cases.model(recipe), recipe.model.width, CLASSES, settings, seed=1)
    assert made(lesson(made, recipe)).item() == pytest.approx(math.log(CLASSES), rel=1e-6)
    same, other = (
        Classifier(cases.model(recipe), recipe.model.width, CLASSES, settings, seed=seed) for seed in (1, 2)
    )
    assert torch.equal(made.head.block.conv1.weight, same.head.block.conv1.weight)
    assert not torch.equal(made.head.block.conv1.weight, other.head.block.conv1.weight)


@pytest.mark.parametrize("weight", [0.0, 1.0])
def test_where_patches_are_dropped_too_what_is_trained_is_what_the_loss_depends_on(weight: float) -> None:
    """The residual block is; the norm of what is decoded is not, where nothing is decoded."""
    made = classifier(DROPS, generative_weight=weight, residual_block=True, hide=0.25)
    made(lesson(made, DROPS)).backward()
    for name, parameter in made.named_parameters():
        assert parameter.requires_grad == (parameter.grad is not None and bool(parameter.grad.any())), name


@pytest.mark.parametrize(
    ("recipe", "settings", "message"),
    [
        (AR, {"hide": 0.1}, r"classify.hide 0.1 does not go with objective autoregressive, which hides"),
        (
            DROPS,
            {"hide": 0.01},
            r"a mask ratio of 0.01 would mask 0 of 8 positions; at least one must be",
        ),
        (AR, {"hide": 0.0, "generative_weight": 0.0}, r"classify.hide 0.0 does not go with objective auto"),
        (AR.updated(width=18), {"residual_block": True}, r"a width that is a multiple of 4, not 18"),
    ],
)
def test_what_does_not_go_with_the_network_is_refused(
    recipe: Recipe, settings: dict[str, float], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        classifier(recipe, **settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"layer": 3}, r"classify.layer 3 does not exist; allowed: 0 to 2"),
        ({"generative_weight": -1.0}, r"generative_weight -1.0 must be at least 0"),
        ({"dropout": 1.0}, r"dropout 1.0 must lie in \[0, 1\)"),
        ({"smoothing": 1.0}, r"smoothing 1.0 must lie in \[0, 1\)"),
        ({"hide": 1.0}, r"hide 1.0 must lie in \[0, 1\)"),
        ({"hide": 0.0}, r"hide 0 leaves no codes to name; set a share, hide=null for"),
        ({"patience": 0}, r"patience 0 must be at least 1"),
    ],
)
def test_what_cannot_be_is_refused(settings: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        classifier(AR, **settings)
