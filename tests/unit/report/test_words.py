"""Recipes in words say the recipe's own values, and never fail on one that they do not know."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isopix.codecs.pixel import PaletteColours
from isopix.core.config import to_dict
from isopix.model.blocks import TransformerSpec
from isopix.recipes import registry, tiny
from isopix.recipes.recipe import Recipe
from isopix.report import words
from tests.unit.report.cases import regression

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["kind", "norm"]), inner),
    max_leaves=4,
)


@pytest.mark.parametrize("name", registry.RECIPES)
def test_every_recipe_has_words_for_all_its_parts(name: str) -> None:
    text = " ".join(words.sentences(to_dict(registry.find(name))))
    unknown = text.replace(f"“{registry.find(name).data.source}”", "")
    assert "“" not in unknown
    assert "unknown" not in unknown


def test_the_sentences_hold_the_settings() -> None:
    recipe = tiny.digits_bert().updated(
        depth=7,
        width=96,
        steps=123,
        batch_size=4,
    )
    text = " ".join(words.sentences(to_dict(recipe)))
    for said in (
        "7 transformer",
        "width 96",
        "17 colours",
        "15\u00a0% of all positions are hidden",
        "123 steps of 4",
        "492 images",
    ):
        assert said in text


@pytest.mark.parametrize(
    ("name", "settings", "said"),
    [
        ("vit.tiny", [], "With the positions goes one learned vector more, the class token."),
        ("vit.tiny", ["tie_blocks=true"], "All blocks are one and the same, run 4 times over."),
        (
            "vit.tiny",
            ["objective.deterministic_mask=true"],
            "Of an image as it is shown the same is hidden every time.",
        ),
        (
            "vit.tiny",
            ["class_token=false", "objective.causal=true"],
            "learns to name hidden mean colours from what is left before each (masked, as BERT).",
        ),
        ("vit.tiny", [], "from all that is left (masked, as BERT)."),
        ("patchformer.tiny", [], "; in training 1 % of each label is shared among all levels."),
        ("patchformer.tiny", [], "40 of 64 positions (62.5 %) are hidden, in squares of 2 × 2."),
        ("patchformer.base", [], "116 of 196 positions (59.2 %) are hidden, in squares of 2 × 2."),
        (
            "patchformer.base",
            ["objective.mask.exact_count=118"],
            "118 of 196 positions (60.2 %) are hidden, single ones, anywhere.",
        ),
        ("igpt.digits_bert", ["objective.mask=block"], "40 of 64 positions (62.5 %) are hidden, in squares"),
    ],
)
def test_what_few_recipes_have_is_told_where_they_have_it(name: str, settings: list[str], said: str) -> None:
    def told(*words_: str) -> str:
        recipe = registry.resolve(name, assignments=words_).recipe
        return " ".join(words.sentences(to_dict(recipe))).replace("\u00a0", " ")

    assert said in told(*settings)
    if settings:
        assert said not in told()


def test_a_plain_recipe_is_told_none_of_it() -> None:
    text = " ".join(words.sentences(to_dict(tiny.digits_bert())))
    for word in ("class token", "one and the same", "every time", "shared among", "single ones"):
        assert word not in text


def test_a_mask_that_cannot_be_counted_goes_by_its_name() -> None:
    recipe = to_dict(registry.find("patchformer.tiny"))
    recipe["objective"]["mask"]["ratio"] = 2.0
    assert "Positions are hidden by “blocks”." in words.sentences(recipe)


def test_a_regressions_sentences_tell_what_its_loss_is() -> None:
    text = " ".join(words.sentences(to_dict(regression())))
    assert (
        "Each patch of 2 × 2 pixels is named by the red, green and blue level of 256 of each of them" in text
    )
    assert "each sub-pixel is given a mean, and its loss is half the squared error" in text
    assert "given a mean" not in " ".join(words.sentences(to_dict(tiny.digits_bert())))


def test_epochs_are_told_where_the_number_of_images_is_known() -> None:
    recipe = to_dict(
        tiny.digits().updated(
            steps=10,
            batch_size=5,
        )
    )
    assert "2.0 epochs of 25" in words.sentences(recipe, {"train": 25})[-1]


@pytest.mark.parametrize(
    ("train", "told"), [(1000, "0.05 epochs"), (10_000_000, "less than 0.01 epochs"), (25, "2.0 epochs")]
)
def test_a_part_of_an_epoch_is_not_none(train: int, told: str) -> None:
    recipe = to_dict(
        tiny.digits().updated(
            steps=10,
            batch_size=5,
        )
    )
    assert f"50 images: {told} of {train:,}" in words.sentences(recipe, {"train": train})[-1]


def test_a_limit_is_told() -> None:
    recipe = tiny.digits()
    recipe = replace(recipe, data=replace(recipe.data, limit=300))
    assert "only the first 300 images" in " ".join(words.sentences(to_dict(recipe)))


def test_a_palette_file_is_named() -> None:
    recipe = tiny.digits().updated(
        codec=PaletteColours(colours=17, source="greys.npz"),
    )
    assert "The colours are those of “greys.npz”." in words.sentences(to_dict(recipe))


def test_a_codec_without_a_palette_is_not_given_one() -> None:
    recipe = to_dict(tiny.digits()) | {"codec": {"kind": "mean_colour"}}
    text = " ".join(words.sentences(recipe))
    assert "Images are coded by “mean_colour”." in text
    assert "k-means" not in text


def test_a_kind_without_words_goes_by_its_name() -> None:
    recipe = to_dict(tiny.digits()) | {"block": {"kind": "axial"}, "objective": {"kind": "rotation"}}
    text = " ".join(words.sentences(recipe))
    assert "blocks of the kind “axial”" in text
    assert "The objective is “rotation”." in text


@settings(max_examples=40)
@given(st.dictionaries(st.sampled_from([*to_dict(tiny.digits())]), JSON))
def test_no_values_make_it_fail(values: dict[str, Any]) -> None:
    recipe = json.loads(json.dumps(to_dict(tiny.digits()))) | values
    assert words.sentences(recipe)
    assert words.architecture(recipe)
    assert words.graded(recipe)


def test_one_of_a_thing_is_one() -> None:
    recipe = tiny.digits().updated(
        depth=1,
        steps=1,
        batch_size=1,
        block=TransformerSpec(heads=1),
    )
    text = " ".join(words.sentences(to_dict(recipe)))
    for said in ("1 transformer block of", "1 attention head.", "1 step of 1 image,", "in all 1 image."):
        assert said in text
    assert words.singular("21 blocks, 1,001 steps, 0.1 epochs, 1 test images") == (
        "21 blocks, 1,001 steps, 0.1 epochs, 1 test image"
    )


@pytest.mark.parametrize("recipe", [tiny.digits(), tiny.digits_bert()], ids=["autoregressive", "masked"])
def test_of_an_imported_model_its_network_alone_is_told(recipe: Recipe) -> None:
    text = " ".join(words.imported(to_dict(recipe), "OpenAI model.ckpt-7", 7000, None))
    assert "4 transformer blocks of width 64" in text
    assert text.endswith("from OpenAI model.ckpt-7; its training is not known beyond its 7,000 steps.")
    for unknown in ("k-means", "Adam", "seed", "digits", "hidden, each", "%"):
        assert unknown not in text
    told = words.imported(to_dict(recipe), "Hugging Face x", 0, "my photos")
    assert told[-2].endswith("its training is not known.")
    assert "my photos" in told[-1]
