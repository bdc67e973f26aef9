"""The joint loss of fine-tuning is the weighted sum of its two losses, each with its gradient."""

import numpy as np
import pytest
import torch
from sklearn.utils.class_weight import compute_class_weight
from torch.nn import functional as F

from isopix.core.random import generator
from isopix.finetuning.classifier import FineTuneConfig, FineTuneModel, FineTuneTask, LabeledBatch
from isopix.model.masking import DropMaskingSpec
from isopix.recipes.recipe import Recipe
from tests.laws import cases

CLASSES = 4
AR, BERT = cases.autoregressive()[0], cases.masked()[0]
DROPS = next(case for case in cases.masked() if case.objective.corruption == DropMaskingSpec())
SWAPS = next(
    case for case in cases.masked() if case.objective.random_rate and case.model.stem.kind == "patch_embed"
)
both = pytest.mark.parametrize("recipe", [AR, BERT], ids=["ar", "bert"])


def finetune_model(recipe: Recipe, **settings: object) -> FineTuneModel:
    """A network in which every weight matters, and a head that is not zero."""
    made = FineTuneModel(cases.busy_model(recipe), recipe.model.width, CLASSES, FineTuneConfig(**settings))
    torch.nn.init.normal_(made.head.weight, generator=generator(0, "head"))
    made.freeze_unused()
    return made


def make_batch(made: FineTuneModel, recipe: Recipe, count: int = 6) -> LabeledBatch:
    labels = torch.arange(count) % CLASSES
    return made.make_batch(cases.images(recipe, count), labels, generator(0, "lesson"))


def expected_class_loss(made: FineTuneModel, labeled: LabeledBatch, layer: int) -> torch.Tensor:
    """From the features that probes read, and the weights of the head."""
    batch = labeled.batch
    tokens = list(made.network.backbone.features(batch.inputs, batch.mask))[layer]
    return F.cross_entropy(tokens.mean(1) @ made.head.weight.T, labeled.labels)


@both
@pytest.mark.parametrize("layer", [None, 0, 1])
@pytest.mark.parametrize("weight", [0.0, 0.5, 1.0, "inf"])
def test_the_joint_loss_and_gradient_are_the_sums_of_both(
    recipe: Recipe, layer: int | None, weight: float | str
) -> None:
    made = finetune_model(recipe, layer=layer, generative_weight=weight)
    labeled = make_batch(made, recipe)
    made.requires_grad_(True)
    parameters = dict(made.named_parameters())
    generative = made.objective.loss(made.network, labeled.batch)
    chosen = expected_class_loss(made, labeled, recipe.model.depth if layer is None else layer)
    of_codes = torch.autograd.grad(generative, list(parameters.values()), allow_unused=True)
    of_classes = torch.autograd.grad(chosen, list(parameters.values()), allow_unused=True)
    factors = (1.0, 0.0) if weight == "inf" else (float(weight), 1.0)
    torch.testing.assert_close(made(labeled)["total_nats"], factors[0] * generative + factors[1] * chosen)
    joint = torch.autograd.grad(made(labeled)["total_nats"], list(parameters.values()), allow_unused=True)
    for name, one, other, found in zip(parameters, of_codes, of_classes, joint, strict=True):
        nothing = torch.zeros_like(parameters[name])
        parts = [nothing if each is None else each for each in (one, other, found)]
        torch.testing.assert_close(
            parts[2], factors[0] * parts[0] + factors[1] * parts[1], msg=name, rtol=1e-4, atol=1e-6
        )


DROPPED = {"residual_block": True, "mask_ratio": 0.25}


@pytest.mark.parametrize("recipe", [AR, BERT, DROPS], ids=["ar", "bert", "drop"])
@pytest.mark.parametrize(("weight", "layer"), [(0.0, 1), (0.0, None), (1.0, 1), ("inf", None)])
def test_trained_parameters_are_those_that_the_loss_depends_on(
    recipe: Recipe, weight: float | str, layer: int | None
) -> None:
    settings = DROPPED if recipe is DROPS and weight != "inf" else {}
    made = finetune_model(recipe, generative_weight=weight, layer=layer, **settings)
    made(make_batch(made, recipe))["total_nats"].backward()
    for name, parameter in made.named_parameters():
        assert parameter.requires_grad == (parameter.grad is not None and bool(parameter.grad.any())), name


def test_dropout_is_drawn_with_the_batch_and_keeps_the_mean() -> None:
    made, without = finetune_model(AR, dropout=0.25), finetune_model(AR)
    one, same = (make_batch(made, AR, 400).dropout_mask for _ in range(2))
    assert torch.equal(one, same)
    assert one.unique().tolist() == pytest.approx([0, 4 / 3])
    assert one.mean().item() == pytest.approx(1, abs=0.02)
    labeled = make_batch(made, AR)
    assert made(labeled)["total_nats"] != without(make_batch(without, AR))["total_nats"]
    images = cases.images(AR, 6)
    found, expected = made.evaluate(labeled, images), without.evaluate(labeled, images)
    torch.testing.assert_close(found, expected, rtol=0, atol=0, msg="evaluations have no dropout")


@pytest.mark.parametrize("masked", [True, False])
def test_a_masked_network_is_evaluated_with_or_without_masks(masked: bool) -> None:
    made = finetune_model(BERT, mask_at_eval=masked)
    labeled = make_batch(made, BERT)
    logits = made.predict(labeled.batch.inputs, labeled.batch.mask if masked else None)
    metrics = made.evaluate(labeled, cases.images(BERT, 6))
    torch.testing.assert_close(metrics["class_nats"], F.cross_entropy(logits, labeled.labels))
    assert metrics["accuracy"].tolist() == (logits.argmax(1) == labeled.labels).tolist()
    torch.testing.assert_close(metrics["loss_nats"], made.objective.loss(made.network, labeled.batch))


@pytest.mark.parametrize("recipe", [BERT, DROPS, SWAPS], ids=["zero", "drop", "token"])
def test_mask_ratio_masks_single_positions_instead_of_the_objectives_mask(recipe: Recipe) -> None:
    plain, made = finetune_model(recipe), finetune_model(recipe, mask_ratio=0.25)
    images, positions = cases.images(recipe, 4), recipe.grid.positions
    labeled = made.make_batch(images, torch.zeros(4, dtype=torch.long), generator(0, "lesson")).batch
    assert labeled.loss_mask.sum((1, 2)).tolist() == [round(0.25 * positions)] * 4
    assert made.objective.corruption == recipe.objective.corruption
    assert plain.objective == recipe.objective
    assert set(dict(made.named_parameters())) == set(dict(plain.named_parameters()))


def test_with_mask_ratio_0_classes_are_learned_and_evaluated_on_whole_images() -> None:
    """Nor are patches swapped; the mask token is not trained."""
    made = finetune_model(SWAPS, generative_weight=0.0, mask_ratio=0.0)
    images = cases.images(SWAPS, 6)
    labeled = made.make_batch(images, torch.arange(6) % CLASSES, generator(0, "lesson"))
    assert labeled.batch.mask is None
    assert torch.equal(labeled.batch.inputs, images)
    expected = F.cross_entropy(made.predict(images), labeled.labels)
    torch.testing.assert_close(made(labeled)["total_nats"], expected)
    torch.testing.assert_close(made.evaluate(labeled, images)["class_nats"], expected)
    made(labeled)["total_nats"].backward()
    trained = {name for name, parameter in made.named_parameters() if parameter.requires_grad}
    assert trained == {name for name, parameter in made.named_parameters() if parameter.grad is not None}
    assert "network.backbone.masking.token" not in trained


def test_the_residual_block_is_a_bottleneck_of_each_vector_alone() -> None:
    """x + W3 f(W2 f(W1 f(x))), f a ReLU behind a norm over groups, W of standardized rows; in float64."""
    made = finetune_model(AR, generative_weight=0.0, residual_block=True).double()
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


@pytest.mark.parametrize(
    ("recipe", "settings", "message"),
    [
        (DROPS, {"mask_ratio": 0.01}, r"a mask ratio of 0.01 would mask 0 of 8 positions; at least one"),
        (AR.updated(width=18), {"residual_block": True}, r"a width that is a multiple of 4, not 18"),
    ],
)
def test_settings_that_do_not_go_with_the_network_are_refused(
    recipe: Recipe, settings: dict[str, float], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        finetune_model(recipe, **settings)


def test_balanced_class_weights_are_scikit_learns_and_pytorchs_loss_in_training_alone() -> None:
    labels = torch.tensor([0, 0, 0, 1, 1, 3])
    made = finetune_model(AR, class_weights="balanced", generative_weight=0.0)
    weights = made.settings.weights_of_classes(labels, CLASSES)
    present = np.unique(labels.numpy())
    theirs = compute_class_weight("balanced", classes=present, y=labels.numpy())
    np.testing.assert_allclose(weights[present], theirs)
    task, images = FineTuneTask(made, labels=labels), cases.images(AR, 6)
    labeled = task.make_batch(images, labels, generator(0, "lesson"))
    logits = made.predict(labeled.batch.inputs)
    losses = F.cross_entropy(logits, labels, weight=weights.float(), reduction="none")
    torch.testing.assert_close(task.losses(labeled)["class_nats"], losses.mean())
    evaluated = task.evaluate(images, labels, generator(0, "lesson"))["class_nats"]
    torch.testing.assert_close(evaluated, F.cross_entropy(logits, labels))
    assert FineTuneConfig().weights_of_classes(labels, CLASSES) is None
