"""Reconstruction predicts the most likely codes under the mask, and of the inputs, of the objective."""

from dataclasses import replace

import pytest
import torch

from isopix.codecs.base import Codec
from isopix.core.random import generator
from isopix.core.types import Images
from isopix.generate.complete import Reconstruction, reconstruct_images
from isopix.objectives.base import ObjectiveSpec, PretrainModel, TrainingBatch
from isopix.objectives.objectives import Masked
from isopix.recipes.recipe import Recipe
from tests.laws import cases

READS_CODES = next(case for case in cases.masked() if case.model.stem.kind == "token_embedding")
READS_PIXELS = next(case for case in cases.masked() if case.model.stem.kind == "patch_embed")
both = pytest.mark.parametrize("recipe", [READS_CODES, READS_PIXELS], ids=["codes", "pixels"])


def found_by(model: PretrainModel, images: Images) -> Reconstruction:
    return reconstruct_images(model, images, generator=generator(0, "hide"))


def check(model: PretrainModel, found: Reconstruction, inputs: Images, batch: TrainingBatch) -> None:
    """Against the most likely codes of these inputs, under the mask of this batch."""
    network = model.network
    assert torch.equal(found.mask, batch.mask)
    predicted = network.predict(network.inputs_of(inputs), batch.mask)
    correct = (predicted == batch.targets)[batch.loss_mask.expand_as(predicted)]
    assert found.accuracy == pytest.approx(correct.double().mean().item())
    decoded = network.codec.decode(torch.where(batch.mask, predicted, batch.targets))
    masked = found.pixel_mask[:, None]
    assert torch.equal(found.prediction * masked, decoded * masked)


class HalfMasked(Masked):
    """Masks the right half of what it inverts, and has the first column and the last in the loss."""

    def make_batch(self, images: Images, codec: Codec, generator: torch.Generator) -> TrainingBatch:
        column = torch.arange(codec.grid.positions) % codec.grid.cols
        mask, loss_mask = column >= codec.grid.cols // 2, (column == 0) | (column == codec.grid.cols - 1)
        masks = [each[None, :, None].expand(len(images), -1, 1) for each in (mask, loss_mask)]
        return TrainingBatch.with_equal_weights(255 - images, masks[0], codec.encode(images), masks[1])

    make_reconstruction_batch = ObjectiveSpec.make_reconstruction_batch


@both
def test_what_is_masked_shown_and_scored_is_what_the_objective_says(recipe: Recipe) -> None:
    model, images = cases.busy_model(recipe), cases.images(recipe)
    objective = HalfMasked(corruption=recipe.objective.corruption)
    batch = objective.make_batch(images, model.network.codec, generator(0, "any"))
    found = found_by(PretrainModel(model.network, objective), images)
    check(model, found, 255 - images, batch)
    assert torch.equal(found.original, model.network.visible_pixels(images))


@both
def test_chosen_positions_that_training_keeps_or_replaces_are_masked(recipe: Recipe) -> None:
    model, images = cases.busy_model(recipe), cases.images(recipe)
    shown = replace(recipe.objective, random_rate=0.5, keep_rate=0.5)
    batch = shown.make_batch(images, model.network.codec, generator(0, "hide"))
    found = found_by(PretrainModel(model.network, shown), images)
    check(model, found, images, batch._replace(mask=batch.loss_mask))


def test_exact_matches_stand_beside_those_of_predictions_without_learning() -> None:
    """Of black images with a white row, whose most frequent value is black."""
    model = cases.busy_model(READS_CODES)
    images = torch.zeros_like(cases.images(READS_CODES))
    images[:, :, 2] = 255
    black = int(model.network.codec.encode(images)[0, 0, 0])
    found = reconstruct_images(model, images, generator=generator(0, "hide"), modes=[black])
    rows = found.mask[..., 0].unflatten(1, tuple(READS_CODES.grid))
    assert found.baselines["most frequent value"] == pytest.approx(1 - float(rows[:, 2].sum() / rows.sum()))
    assert set(found_by(model, images).baselines) == {"nearest visible"}
