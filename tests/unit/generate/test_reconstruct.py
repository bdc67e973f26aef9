"""Reconstruction predicts the most likely codes with any head and puts them into the image."""

from dataclasses import replace

import pytest
import torch

from isopix.codecs import FullPatchSpec, GrayThumbnailSpec
from isopix.codecs.base import Codec
from isopix.core.random import generator
from isopix.core.types import Images
from isopix.data.dataset import DataConfig
from isopix.generate.reconstruct import Reconstruction, reconstruct_images
from isopix.model.blocks.transformer import TransformerSpec
from isopix.model.heads import HeadSpec, LinearHeadSpec, RegressionHeadSpec
from isopix.model.masking import MaskTokenMaskingSpec
from isopix.model.mlp import TwoLayerMLPSpec
from isopix.model.norms import LayerNormSpec
from isopix.model.spec import ModelSpec
from isopix.model.stems.patch_embed import PatchEmbedSpec
from isopix.objectives.base import ObjectiveSpec, PretrainModel, TrainingBatch
from isopix.objectives.masked import Masked
from isopix.objectives.masks import BernoulliMask
from isopix.recipes import igpt
from isopix.recipes.recipe import Recipe

PATCH, SIDE = 8, 32


def model(head: HeadSpec, codec: FullPatchSpec | GrayThumbnailSpec) -> PretrainModel:
    recipe = Recipe(
        name="reconstruct",
        model=ModelSpec(
            codec=codec,
            stem=PatchEmbedSpec(),
            block=TransformerSpec(heads=2, attention_bias=True, norm=LayerNormSpec(), mlp=TwoLayerMLPSpec()),
            depth=1,
            width=64,
            head=head,
            init="vit",
        ),
        data=DataConfig(rows=SIDE, cols=SIDE),
        objective=Masked(mask=BernoulliMask(ratio=0.5), corruption=MaskTokenMaskingSpec()),
    )
    return PretrainModel(recipe.build(recipe.model.codec.build(recipe.grid)), recipe.objective)


def example_image() -> Images:
    """A smooth ramp in each channel, and a square in it."""
    ramp = torch.linspace(0, 255, SIDE)
    image = torch.stack(
        [ramp.expand(SIDE, SIDE), ramp[:, None].expand(SIDE, SIDE), torch.full((SIDE, SIDE), 90.0)]
    )
    image[:, 5:12, 9:20] = torch.tensor([250.0, 20.0, 200.0])[:, None, None]
    return image.round().to(torch.uint8)[None]


def overfitted(fitted: PretrainModel, steps: int = 250) -> PretrainModel:
    optimizer = torch.optim.Adam(fitted.parameters(), 3e-3)
    for step in range(steps):
        optimizer.zero_grad()
        images = example_image().expand(8, -1, -1, -1)
        fitted(fitted.make_batch(images, generator(0, "mask", step))).backward()
        optimizer.step()
    return fitted


def error(found: Reconstruction, images: Images) -> float:
    """The root mean squared error of the masked pixels, in levels of 0 to 255."""
    rows = found.mask[0, :, 0].view(SIDE // PATCH, SIDE // PATCH)
    where = rows.repeat_interleave(PATCH, 0).repeat_interleave(PATCH, 1).expand(3, -1, -1)
    return float((found.prediction[0].float() - images[0].float())[where].square().mean().sqrt())


def test_a_regression_head_fitted_to_one_image_reconstructs_it() -> None:
    fitted = model(RegressionHeadSpec(), FullPatchSpec(patch_size=PATCH))
    before = reconstruct_images(fitted, example_image(), generator=generator(0, "hide"))
    after = reconstruct_images(overfitted(fitted), example_image(), generator=generator(0, "hide"))
    assert error(before, example_image()) > 60  # gray everywhere
    assert error(after, example_image()) < 6
    assert torch.equal(after.original, example_image())
    assert torch.equal(after.target, example_image())
    assert not torch.equal(after.prediction, example_image())


@pytest.mark.parametrize("head", [LinearHeadSpec(), RegressionHeadSpec()], ids=["linear", "regression"])
def test_visible_positions_stay_and_masked_ones_become_the_most_likely_code(head: HeadSpec) -> None:
    made = model(head, GrayThumbnailSpec(patch_size=PATCH))
    net = made.network
    torch.nn.init.normal_(net.head.project.weight, generator=generator(0, "weights"))
    found = reconstruct_images(made, example_image(), generator=generator(0, "hide"))
    mask = found.mask.clone()
    predicted = net.predict(example_image(), mask)
    assert torch.equal(
        net.codec.encode(found.prediction), torch.where(mask, predicted, net.codec.encode(example_image()))
    )
    correct = (predicted == net.codec.encode(example_image()))[mask.expand_as(predicted)]
    assert found.accuracy == pytest.approx(correct.double().mean().item())


class HalfMasked(Masked):
    """Masks the right half of what it inverts, and has the first column and the last in the loss."""

    def make_batch(self, images: Images, codec: Codec, generator: torch.Generator) -> TrainingBatch:
        column = torch.arange(codec.grid.positions) % codec.grid.cols
        mask, loss_mask = column >= codec.grid.cols // 2, (column == 0) | (column == codec.grid.cols - 1)
        masks = [each[None, :, None].expand(len(images), -1, 1) for each in (mask, loss_mask)]
        return TrainingBatch.with_equal_weights(255 - images, masks[0], codec.encode(images), masks[1])

    make_reconstruction_batch = ObjectiveSpec.make_reconstruction_batch


@pytest.mark.parametrize("stem", ["patch_embed", "token_embedding"])
def test_what_is_masked_shown_and_scored_is_what_the_objective_says(stem: str) -> None:
    made = model(LinearHeadSpec(), GrayThumbnailSpec(patch_size=PATCH))
    if stem == "token_embedding":
        recipe = igpt.digits_bert().updated(data=DataConfig(rows=SIDE, cols=SIDE), width=16, depth=1)
        made = PretrainModel(recipe.build(recipe.model.codec.placeholder(recipe.grid)), recipe.objective)
    net, images = made.network, example_image()
    torch.nn.init.normal_(net.head.project.weight, generator=generator(0, "weights"))
    objective = HalfMasked(corruption=made.objective.corruption)
    found = reconstruct_images(PretrainModel(net, objective), images, generator=generator(0, "hide"))
    batch = objective.make_batch(images, net.codec, generator(0, "any"))
    assert torch.equal(found.mask, batch.mask)
    predicted = net.predict(net.inputs_of(255 - images), batch.mask)
    correct = (predicted == batch.targets)[batch.loss_mask.expand_as(predicted)]
    assert found.accuracy == pytest.approx(correct.double().mean().item())
    decoded = net.codec.decode(torch.where(batch.mask, predicted, batch.targets))
    assert torch.equal(found.prediction[..., SIDE // 2 :], decoded[..., SIDE // 2 :])
    assert torch.equal(found.prediction[..., : SIDE // 2], net.visible_pixels(images)[..., : SIDE // 2])


def test_chosen_positions_that_training_keeps_or_replaces_are_masked() -> None:
    made = model(LinearHeadSpec(), GrayThumbnailSpec(patch_size=PATCH))
    torch.nn.init.normal_(made.network.head.project.weight, generator=generator(0, "weights"))
    mostly_shown = replace(made.objective, random_rate=0.5, keep_rate=0.5)
    images = example_image()
    found = reconstruct_images(
        PretrainModel(made.network, mostly_shown), images, generator=generator(0, "hide")
    )
    batch = mostly_shown.make_batch(images, made.network.codec, generator(0, "hide"))
    assert torch.equal(found.mask, batch.loss_mask)
    predicted = made.network.predict(images, batch.loss_mask)
    correct = (predicted == batch.targets)[batch.loss_mask.expand_as(predicted)]
    assert found.accuracy == pytest.approx(correct.double().mean().item())


def test_only_masked_patches_of_the_photograph_are_replaced() -> None:
    made = model(LinearHeadSpec(), GrayThumbnailSpec(patch_size=PATCH))
    net = made.network
    torch.nn.init.normal_(net.head.project.weight, generator=generator(0, "weights"))
    found = reconstruct_images(made, example_image(), generator=generator(0, "hide"))
    assert torch.equal(found.original, example_image())
    expected_patches = {
        "prediction": net.codec.decode(net.predict(example_image(), found.mask.clone())),
        "target": net.codec.decode(net.codec.encode(example_image())),
    }
    for name, decoded in expected_patches.items():
        for place in range((SIDE // PATCH) ** 2):
            top, left = PATCH * (place // (SIDE // PATCH)), PATCH * (place % (SIDE // PATCH))
            patch = slice(0, 1), slice(None), slice(top, top + PATCH), slice(left, left + PATCH)
            expected = decoded if found.mask[0, place, 0] else example_image()
            assert torch.equal(getattr(found, name)[patch], expected[patch])
    assert 0 < found.mask.sum() < found.mask.numel()


def test_the_original_of_a_palette_network_is_quantized() -> None:
    recipe = igpt.digits_bert().updated(
        data=DataConfig(rows=8, cols=8),
        width=16,
        depth=1,
    )
    net = recipe.build(recipe.model.codec.placeholder(recipe.grid))
    images = example_image()[..., :8, 4:12]
    found = reconstruct_images(PretrainModel(net, recipe.objective), images, generator=generator(0, "hide"))
    quantized = net.codec.decode(net.codec.encode(images))
    assert not torch.equal(quantized, images)
    assert torch.equal(found.original, quantized)
    assert torch.equal(found.target, quantized)


def test_all_pixels_of_a_patch_with_a_masked_code_are_masked() -> None:
    images = torch.zeros(1, 3, 4, 4, dtype=torch.uint8)
    mask = torch.tensor([[[False, True], [False, False], [False, False], [False, False]]])
    inside = torch.zeros(1, 4, 4, dtype=torch.bool)
    inside[:, :2, :2] = True
    assert Reconstruction(images, mask, images, images, 0.0).pixel_mask.equal(inside)


def test_exact_matches_stand_beside_those_of_predictions_without_learning() -> None:
    """Of a black image with a white row, whose most frequent value is black."""
    recipe = igpt.digits_bert().updated(data=DataConfig(rows=8, cols=8), width=16, depth=1)
    net = recipe.build(recipe.model.codec.placeholder(recipe.grid))
    images = torch.zeros(1, 3, 8, 8, dtype=torch.uint8)
    images[:, :, 2] = 255
    black = int(net.codec.encode(images)[0, 0, 0])
    made = PretrainModel(net, recipe.objective)
    found = reconstruct_images(made, images, generator=generator(0, "hide"), modes=[black])
    rows = found.mask[0, :, 0].view(8, 8)
    assert found.baselines["most frequent value"] == pytest.approx(1 - float(rows[2].sum() / rows.sum()))
    assert set(reconstruct_images(made, images, generator=generator(0, "hide")).baselines) == {
        "nearest visible"
    }
