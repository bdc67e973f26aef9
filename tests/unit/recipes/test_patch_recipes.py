"""PatchFormer and the Vision Transformers against their papers."""

import math

import pytest

from isopix.core.random import generator
from isopix.objectives.base import PretrainModel
from isopix.recipes import registry
from isopix.recipes.cost import recipe_cost, recipe_memory
from isopix.recipes.recipe import Recipe
from tests.laws import cases

TINY = {"patchformer.tiny": 4, "vit.tiny": 512, "vit.tiny_axial": 512, "vit.tiny_hybrid": 512}
WHOLE = ["codec=full_patch", "codec.patch_size=8", "head=regression"]


def resolved(name: str, *words: str) -> Recipe:
    return registry.resolve(name, assignments=words).recipe


@pytest.mark.parametrize(
    ("name", "millions", "tolerance"),
    [("vit.b16", 86, 0.01), ("vit.l16", 304, 0.02), ("vit.h14", 632, 0.01)],
)
def test_parameters_are_the_papers(name: str, millions: float, tolerance: float) -> None:
    """Table 1, without the classes' head; L's 307 there is 304 when it is counted."""
    assert recipe_cost(registry.find(name)).parameters / 1e6 == pytest.approx(millions, rel=tolerance)


def test_parameters_of_b_are_counted_to_the_last_one() -> None:
    d = 768
    block = 12 * d * d + 13 * d
    stem, places, tokens = 768 * d + d, 196 * d, 2 * d
    assert recipe_cost(registry.find("vit.b16")).parameters == (
        12 * block + stem + places + tokens + 2 * d + 512 * d
    )


@pytest.mark.parametrize("name", TINY)
def test_an_untrained_network_is_uniform(name: str) -> None:
    recipe = resolved(name)
    model = PretrainModel(recipe.build(recipe.model.codec.build(recipe.grid)), recipe.objective)
    batch = model.make_batch(cases.images(recipe, 2), generator(0, "batch"))
    assert model(batch).item() == pytest.approx(math.log(TINY[name]), rel=1e-6)


def test_patchformer_masks_116_of_196_patches_and_sees_80() -> None:
    recipe = registry.find("patchformer.base")
    mask = recipe.objective.mask.sample(1, recipe.grid, 64, generator(0, "mask"))
    assert (recipe.grid.positions, int(mask.sum())) == (196, 116)


def test_patchformers_training_is_the_papers() -> None:
    recipe = registry.find("patchformer.base")
    assert (recipe.train.steps, recipe.train.batch_size, recipe.model.depth, recipe.model.width) == (
        300_000,
        128,
        10,
        1024,
    )
    assert (recipe.model.block.heads, recipe.model.block.mlp.expansion) == (16, 4)
    assert recipe.objective.label_smoothing == 0.01
    assert (recipe.train.optimizer.lr, recipe.train.optimizer.weight_decay) == (2e-4, 0.001)
    assert recipe.train.schedule.factor(299_999, steps=300_000, epoch=10_009) == 1.0


@pytest.mark.parametrize("name", ["vit.b16", "vit.l16", "vit.h14", "vit.tiny", "vit.tiny_axial"])
def test_vits_mask_eight_tenths_of_a_half_swap_one_and_keep_one(name: str) -> None:
    """Appendix B.1.2."""
    objective = registry.find(name).objective
    assert (objective.mask.kind, objective.mask.ratio, objective.corruption.kind) == (
        "bernoulli",
        0.5,
        "mask_token",
    )
    assert (objective.random_rate, objective.keep_rate) == (0.1, 0.1)


def test_vits_warm_up_is_ten_thousand_steps_of_a_million() -> None:
    recipe = registry.find("vit.b16")
    factor = recipe.train.schedule.factor
    assert factor(9_999, steps=recipe.train.steps, epoch=301) == 1.0
    assert factor(4_999, steps=recipe.train.steps, epoch=301) == pytest.approx(0.5)


def test_dropping_saves_what_is_masked() -> None:
    """Of blocks and stem; the positions seen are the visible ones and the class token."""
    whole = recipe_cost(resolved("patchformer.base", "objective.corruption=mask_token"))
    dropped = recipe_cost(registry.find("patchformer.base"))
    assert dropped.parameters - 2 * 1024 == whole.parameters - 1024  # a norm of places; a mask token
    assert dropped.forward_flops / whole.forward_flops == pytest.approx(80 / 196, abs=0.05)


def test_shared_blocks_are_counted_once_and_run_every_time() -> None:
    one, each = resolved("vit.tiny", "tie_blocks=true"), resolved("vit.tiny")
    block = 12 * 128**2 + 13 * 128
    assert recipe_cost(each).parameters - recipe_cost(one).parameters == 3 * block
    assert recipe_cost(each).forward_flops == recipe_cost(one).forward_flops


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["class_token=true", "objective.causal=true"], "class_token needs a network that is not causal"),
        (["block=axial"], "class_token is not possible with block axial, which needs the whole grid"),
        (["compile=true", "objective.corruption=drop"], "compile=true is not possible with objective.corr"),
        (["objective.mask=per_channel"], "objective: mask per_channel masks single codes, which corruption"),
        (["data.rows=60"], "images of 60 x 64 pixels cannot be cut into patches of 8 x 8"),
        (["stem=fourier_pixel_embedding"], "need positions of one pixel; this codec's are 8 x 8"),
        (["objective.mask=block", "data.rows=56"], "7 x 8 positions cannot be cut into squares of 2 x 2"),
        (["head=regression"], "head regression needs codes that are brightness levels; the 512 codes"),
        ([*WHOLE, "objective.label_smoothing=0.01"], "head regression gives no probabilities of codes"),
        ([*WHOLE, "head=upsampling"], "an upsampling head needs 4 x 4, 8 x 8, 16 x 16 .. codes"),
    ],
)
def test_parts_that_do_not_go_together_are_refused(words: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        recipe_cost(resolved("vit.tiny", *words))


@pytest.mark.parametrize(
    "words",
    [
        ["class_token=false"],
        ["tie_blocks=true"],
        ["class_token=false", "objective.causal=true"],
        ["objective.deterministic_mask=true"],
        ["codec=downsampled_color", "codec.patch_size=8"],
        WHOLE,
        [*WHOLE, "head=linear"],
        ["codec.patch_size=16"],
        ["stem=conv_patch_embed"],
        ["positions=factorized", "objective.mask=block", "objective.corruption=drop"],
    ],
    ids=" ".join,
)
def test_the_reviews_open_questions_are_settings(words: list[str]) -> None:
    assert recipe_cost(resolved("vit.tiny", *words)).parameters > 0


def test_a_regressions_cost_is_that_of_one_number_a_code() -> None:
    """Of 64 patches 32 are decoded, to 192 means in place of 192 times 256 logits, each with its gradient."""
    means = recipe_cost(resolved("vit.tiny", *WHOLE))
    logits = recipe_cost(resolved("vit.tiny", *WHOLE, "head=linear"))
    more = 192 * 255
    assert logits.parameters - means.parameters == 128 * more
    assert logits.forward_flops - means.forward_flops == 32 * 2 * 128 * more
    kept = (
        recipe_memory(resolved("vit.tiny", *WHOLE, "head=linear")),
        recipe_memory(resolved("vit.tiny", *WHOLE)),
    )
    difference = kept[0].activation_bytes - kept[1].activation_bytes
    assert difference == pytest.approx(32 * 8 * more, rel=0.15)  # a batch decodes a few more than the mean


def test_an_untrained_regression_is_gray_everywhere() -> None:
    recipe = resolved("vit.tiny", *WHOLE)
    net = recipe.build(recipe.model.codec.build(recipe.grid))
    model, images = PretrainModel(net, recipe.objective), cases.images(recipe, 2)
    batch = model.make_batch(images, generator(0, "batch"))
    assert model(batch).item() == pytest.approx(cases.initial_loss(recipe, net, batch), rel=1e-6)
    assert net.predict(images).unique().tolist() == [128]
