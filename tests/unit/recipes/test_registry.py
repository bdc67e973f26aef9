"""Recipes by name, their settings with where each comes from, and the palette of data given as codes."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from isopix.codecs.palette_spec import PaletteFile, PaletteSpec, write_palette
from isopix.core.config import from_dict, to_dict
from isopix.core.overrides import override
from isopix.finetuning.classifier import FineTuneConfig
from isopix.recipes import registry
from isopix.recipes.recipe import Recipe
from isopix.recipes.results import RecipeSettings
from isopix.runs.start import finetune_recipe, prepare_finetune
from isopix.train.config import Adam
from tests.golden.values import check_golden

NAMES = list(registry.RECIPES)


@pytest.mark.parametrize("name", NAMES)
def test_recipe_to_file_to_recipe_is_the_identity(name: str) -> None:
    recipe = registry.find(name)
    assert recipe.name == name
    assert from_dict(Recipe, to_dict(recipe)) == recipe
    place = NAMES.index(name)
    previous = to_dict(registry.find(NAMES[place - 1])) if place else {}
    check_golden("recipes", name, to_dict(recipe), previous)


def test_a_size_is_rows_and_columns_of_which_either_may_differ(tmp_path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("data: {size: 48}\n")
    both = registry.resolve("vit.tiny", settings=["data.size=96"])
    assert (both.recipe.data.rows, both.recipe.data.cols) == (96, 96)
    assert both.origins == {"data.rows": "command line", "data.cols": "command line"}
    wide = registry.resolve("vit.tiny", file=file, settings=["data.cols=80"]).recipe.data
    assert (wide.rows, wide.cols) == (48, 80)


def test_a_setting_that_a_later_one_makes_meaningless_is_named() -> None:
    message = r"'model\.codec\.palette_file' of the option is no longer a setting after later overrides"
    with pytest.raises(ValueError, match=message):
        registry.resolve("igpt.digits", options={"codec.palette_file": "x.npz"}, settings=["codec=bytes"])


def test_a_short_training_evaluates_fewer_images_unless_they_are_given() -> None:
    found = registry.resolve("igpt.tiny", settings=["steps=20", "batch_size=16"])
    assert (found.recipe.train.evaluate_images, found.recipe.train.num_test_images) == (64, 120)
    assert found.origins["train.num_test_images"] == "a fifth of the run"
    for word, images in (("num_test_images=2000", 2000), ("train.num_test_images=null", None)):
        config = registry.resolve("igpt.tiny", settings=["steps=20", word]).recipe.train
        assert (config.evaluate_images, config.num_test_images) == (64, images)
    tuned = prepare_finetune("igpt.tiny", ["steps=20"], from_scratch=True).recipe.train
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
    wrong = replace(own, finetune_overrides=("mask_ratoi=0",))
    with pytest.raises(ValueError, match=r"did you mean 'finetune\.mask_ratio'"):
        finetune_recipe(wrong, "digits", from_scratch=False)


def test_a_published_recipe_of_fine_tuning_is_a_file_by_its_name() -> None:
    """MAE, table 9: base rate 1e-3 times batch size / 256, 100 epochs of ImageNet; own settings win."""
    file, scratch = Path("mae.finetuning"), {"from_scratch": True}
    recipe = prepare_finetune("vit.b16", ["weight_decay=0.3"], file=file, **scratch).recipe
    train = recipe.train
    assert train.optimizer.lr == pytest.approx(1e-3 * train.batch_size / 256)
    assert train.steps * train.batch_size == pytest.approx(100 * 1_281_167, rel=1e-3)
    assert (train.optimizer.weight_decay, train.layer_decay, recipe.model.drop_path) == (0.3, 0.75, 0.1)
    assert prepare_finetune("vit.b16", file=Path("vit.finetuning"), **scratch).recipe.data.rows == 384
    assert prepare_finetune("igpt.tiny", file=file, **scratch).recipe.train.layer_decay == 0.75
    with pytest.raises(ValueError, match=r"finetune RUN --file mae\.finetuning"):
        registry.find("mae.finetuning")


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

    Analyses and probes are no part of a recipe; a file of one's own parts knows the package's.
    """
    alone, every = registered("import isopix.recipes.recipe", EVERY)
    others = every.keys() - {"analysis", "probe"}
    assert {noun: alone[noun] for noun in others} == {noun: every[noun] for noun in others}
    assert registered("import isopix.parts") == [every]


def test_a_palette_file_says_how_many_colors_there_are(tmp_path: Path) -> None:
    path = tmp_path / "five.npz"
    write_palette(path, PaletteFile(torch.arange(15.0).reshape(5, 3), "a test"))
    found = registry.resolve("igpt.tiny", options={"codec.palette_file": str(path)})
    assert found.recipe.model.codec == PaletteSpec(num_colors=5, palette_file=str(path))
    assert found.origins["model.codec.num_colors"] == "palette file"
    assert found.origins["model.codec.palette_file"] == "option"
    kept = registry.resolve("igpt.tiny", settings=[f"palette_file={path}", "num_colors=7"])
    assert kept.recipe.model.codec.num_colors == 7


@pytest.mark.parametrize(("epochs", "steps", "tuned"), [(3, 38, 8), (0.1, 2, 1), (2.56, 32, 7)])
def test_epochs_are_the_steps_that_read_every_training_image(epochs: float, steps: int, tuned: int) -> None:
    """ceil(epochs * images / 8) of 100 images, or of 2 of each of ten classes."""
    words = ["data.holdout=0", "limit=100", "batch_size=8", f"epochs={epochs}", "learning_rate=0.5"]
    found = registry.resolve("igpt.tiny", settings=["data=digits", *words])
    assert (found.recipe.train.steps, found.origins["train.steps"]) == (steps, f"{epochs} epochs")
    assert found.recipe.train.optimizer.lr == 0.5
    few = prepare_finetune("igpt.digits", [*words, "data.labels_per_class=2"], from_scratch=True)
    assert few.recipe.train.steps == tuned
    with pytest.raises(ValueError, match="steps and epochs are both given"):
        registry.resolve("igpt.digits", settings=[*words, "steps=3"])


def shown(recipe: Recipe) -> str:
    settings = registry.settings(registry.compared(recipe))
    return RecipeSettings(recipe=recipe.name, settings=tuple(settings)).document


@pytest.mark.parametrize("name", registry.SINGLE)
def test_the_settings_file_of_a_recipe_gives_this_recipe(name: str, tmp_path: Path) -> None:
    """Also from a recipe of other parts, and of fine-tuning."""
    file, recipe = tmp_path / "s.yaml", override(registry.find(name), {"lr": 1e-05})
    file.write_text(shown(recipe))
    for other in ("igpt.digits", "vit.tiny"):
        assert registry.resolve(other, file=file).recipe == recipe
    tuned = prepare_finetune("igpt.digits", ["pool=max"], from_scratch=True).recipe
    file.write_text(shown(tuned))
    assert prepare_finetune(name, file=file, from_scratch=True).recipe == tuned
