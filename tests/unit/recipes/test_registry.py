"""Recipes by name, their settings with where each comes from, and the results of `recipe`."""

import json
import subprocess
import sys
from dataclasses import replace

import pytest

import isopix
from isopix.core.config import from_dict, to_dict
from isopix.core.overrides import override
from isopix.finetuning.config import FineTuneConfig
from isopix.recipes import registry
from isopix.recipes.recipe import Recipe
from isopix.recipes.results import Setting
from isopix.runs.start import finetune_recipe, prepare_finetune
from isopix.train.optim import Adam


@pytest.mark.parametrize("name", registry.RECIPES)
def test_recipe_to_file_to_recipe_is_the_identity(name: str) -> None:
    recipe = registry.find(name)
    assert recipe.name == name
    assert from_dict(Recipe, to_dict(recipe)) == recipe


def test_later_layers_win_and_say_so(tmp_path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("depth: 2\nwidth: 32\nblock:\n  heads: 4\n")
    resolved = registry.resolve(
        "igpt.tiny", file=file, options={"seed": 5, "data.limit": None}, assignments=["width=64"]
    )
    model = resolved.recipe.model
    assert (model.depth, model.width, model.block.heads) == (2, 64, 4)
    origins = {each.path: each.source for each in registry.settings(resolved)}
    assert origins["model.depth"] == origins["model.block.heads"] == f"file {file}"
    assert origins["model.width"] == "command line"
    assert origins["train.seed"] == "option"
    assert origins["data.limit"] == origins["train.steps"] == "recipe"


def test_a_size_is_rows_and_columns_of_which_either_may_differ(tmp_path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("data: {size: 48}\n")
    both = registry.resolve("vit.tiny", assignments=["data.size=96"])
    assert (both.recipe.data.rows, both.recipe.data.cols) == (96, 96)
    assert both.origins == {"data.rows": "command line", "data.cols": "command line"}
    wide = registry.resolve("vit.tiny", file=file, assignments=["data.cols=80"]).recipe.data
    assert (wide.rows, wide.cols) == (48, 80)


@pytest.mark.parametrize(
    ("words", "path", "value"),
    [
        (["lr=1e-3"], "train.optimizer.lr", 0.001),
        (["data={rows: 16}"], "data.rows", 16),
        (["data={rows: 16}"], "data.source", "cifar10"),
        (["block.norm.epsilon=0.5", "block.norm=layer_norm"], "model.block.norm.epsilon", 0.5),
        (["objective.mask.ratio=0.5", "objective=masked"], "objective.mask.ratio", 0.5),
        (["data.holdout=null"], "data.holdout", None),
    ],
)
def test_words_mean_what_they_say(words: list[str], path: str, value: object) -> None:
    resolved = registry.resolve("igpt.tiny", assignments=words)
    assert {each.path: each.value for each in registry.settings(resolved)}[path] == value


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("learning_rate=1", "unknown setting 'learning_rate'; did you mean 'train.optimizer.lr'? isopix"),
        ("finetune.dropout=0.1", "'finetune' has no settings inside; it is null here"),
        ("depth", "'depth' is not a setting; write path=value, as in depth=4 or block.heads=2"),
        ("accumulate=3", "train: batch_size 16 is not a multiple of accumulate 3"),
    ],
)
def test_wrong_settings_name_the_right_ones(word: str, message: str) -> None:
    with pytest.raises(ValueError, match=r"\A[^\n]*\Z") as error:
        registry.resolve("igpt.tiny", assignments=[word])
    assert str(error.value).startswith(message)


def test_a_setting_that_a_later_one_makes_meaningless_is_named() -> None:
    message = r"'model\.codec\.palette_file' of the option is no longer a setting after later overrides"
    with pytest.raises(ValueError, match=message):
        registry.resolve("igpt.digits", options={"codec.palette_file": "x.npz"}, assignments=["codec=bytes"])


def test_shown_settings_say_what_they_mean_and_where_a_changed_one_comes_from() -> None:
    found = isopix.show_recipe("igpt.tiny", "depth=6")
    depth = next(each for each in found.settings if each.path == "model.depth")
    assert depth == Setting("model.depth", 6, "command line", 4, "Number of blocks.")
    assert ["model.depth=6  (command line; recipe: 4)", "Number of blocks."] in [
        list(row) for table in found.tables() for row in table.rows
    ]
    assert isopix.list_recipes().recipes.keys() >= {"igpt.tiny", "isotropic.tiny-BLOCK-ENCODING-DEPTH"}


def evaluation_share(config: object) -> float:
    """The share of evaluation in the work of a run: a step costs three forward passes."""
    points = {0, config.steps, *range(config.evaluate_every, config.steps, config.evaluate_every)}
    evaluation = len(points) * config.evaluate_images + config.num_test_images
    return evaluation / (evaluation + 3 * config.steps * config.batch_size)


@pytest.mark.parametrize("name", ["igpt.tiny", "igpt.s", "patchformer.tiny", "isotropic.conv-pix2vec-3"])
@pytest.mark.parametrize("steps", [100, 1000, 50_000])
def test_a_fifth_of_a_training_is_evaluation(name: str, steps: int) -> None:
    config = registry.resolve(name, assignments=[f"steps={steps}", "evaluate_every=50"]).recipe.train
    assert 0.01 < evaluation_share(config) <= 0.2 or config.evaluate_images == 64
    assert registry.resolve(name).recipe == registry.find(name)  # long enough for what it says


def test_a_short_training_evaluates_fewer_images_unless_they_are_given() -> None:
    found = registry.resolve("igpt.tiny", assignments=["steps=20", "batch_size=16"])
    assert (found.recipe.train.evaluate_images, found.recipe.train.num_test_images) == (64, 120)
    assert found.origins["train.num_test_images"] == "a fifth of the run"
    for word, images in (("num_test_images=2000", 2000), ("train.num_test_images=null", None)):
        config = registry.resolve("igpt.tiny", assignments=["steps=20", word]).recipe.train
        assert (config.evaluate_images, config.num_test_images) == (64, images)
    tuned = prepare_finetune("igpt.tiny", ["steps=20"]).recipe.train
    assert (tuned.evaluate_images, tuned.num_test_images) == (64, None)  # so that runs are paired


def test_a_recipe_states_how_it_is_fine_tuned_and_no_part_of_it_decides() -> None:
    own = replace(registry.find("igpt.digits_bert"), finetune_overrides=("dropout=0.2", "lr=0.5"))
    dropping = override(own, {"objective.corruption": "drop", "class_token": True})
    for recipe, pool in ((own, "mean"), (dropping, "first")):
        tuned = finetune_recipe(recipe, "digits", from_scratch=False)
        assert tuned.finetune == FineTuneConfig(dropout=0.2, pool=pool)
        assert tuned.train.optimizer == Adam(lr=0.5)
        assert tuned.pool == tuned.finetune.pool
    assert finetune_recipe(own, "digits", from_scratch=True).train.optimizer.lr == own.train.optimizer.lr
    chosen = replace(dropping, finetune_overrides=("finetune.pool=mean",))
    assert chosen.pool == finetune_recipe(chosen, "digits", from_scratch=False).pool == "mean"
    wrong = replace(own, finetune_overrides=("dropuot=0.2",))
    with pytest.raises(ValueError, match=r"did you mean 'finetune\.dropout'"):
        finetune_recipe(wrong, "digits", from_scratch=False)


ALL = """
import importlib, json, pkgutil, sys, isopix
from isopix.core.registry import kinds, nouns
for imports in sys.argv[1:]:
    exec(imports)
    print(json.dumps({noun: sorted(kinds(noun)) for noun in nouns()}))
"""
EVERY = """
for each in pkgutil.walk_packages(isopix.__path__, 'isopix.'):
    if not each.name.startswith("isopix.studio"):  # it needs gradio, and has no parts
        importlib.import_module(each.name)
"""


def registered(*imports: str) -> list[dict[str, list[str]]]:
    """What is registered after each of these imports, one after another in a process of their own."""
    done = subprocess.run([sys.executable, "-c", ALL, *imports], capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.integration
def test_a_recipe_alone_knows_every_part_of_the_package() -> None:
    """Otherwise a run could be read by some commands only, those that happen to import its parts.

    Analyses are no part of a recipe; a file of one's own parts knows the package's.
    """
    alone, every = registered("import isopix.recipes.recipe", EVERY)
    analyses = every.pop("analysis")
    assert {noun: alone.get(noun) for noun in every} == every
    assert registered("import isopix.parts") == [{**every, "analysis": analyses}]
