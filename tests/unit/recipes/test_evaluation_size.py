"""Evaluation takes at most a fifth of a training, by default."""

import pytest

from isopix.recipes import registry
from isopix.runs.start import prepare_finetune


def share(config: object) -> float:
    """The share of evaluation in the work of a run: a step costs three forward passes."""
    points = {0, config.steps, *range(config.evaluate_every, config.steps, config.evaluate_every)}
    evaluation = len(points) * config.evaluate_images + config.num_test_images
    return evaluation / (evaluation + 3 * config.steps * config.batch_size)


@pytest.mark.parametrize("name", ["igpt.tiny", "igpt.s", "patchformer.tiny", "isotropic.conv-pix2vec-3"])
@pytest.mark.parametrize("steps", [100, 999, 1000, 50_000])
def test_a_fifth_of_a_training_is_evaluation(name: str, steps: int) -> None:
    config = registry.resolve(name, assignments=[f"steps={steps}", "evaluate_every=50"]).recipe.train
    assert 0.01 < share(config) <= 0.2 or config.evaluate_images == 64


def test_a_long_training_evaluates_what_its_recipe_says() -> None:
    for name in ("igpt.s", "igpt.tiny", "isotropic.conv-pix2vec-3"):
        assert registry.resolve(name).recipe == registry.find(name)


def test_a_short_training_says_where_its_numbers_come_from() -> None:
    found = registry.resolve("igpt.tiny", assignments=["steps=20", "batch_size=16"])
    assert (found.recipe.train.evaluate_images, found.recipe.train.num_test_images) == (64, 120)
    settings = {each.path: (each.value, each.source) for each in registry.settings(found)}
    assert settings["train.num_test_images"] == (120, "a fifth of the run")


@pytest.mark.parametrize("words", [["num_test_images=2000"], ["train.num_test_images=2000"]])
def test_what_is_asked_for_is_evaluated(words: list[str]) -> None:
    config = registry.resolve("igpt.tiny", assignments=["steps=20", *words]).recipe.train
    assert (config.evaluate_images, config.num_test_images) == (64, 2000)
    config = registry.resolve("igpt.tiny", assignments=["steps=20", "num_test_images=null"]).recipe.train
    assert config.num_test_images is None
    recipe = registry.find("igpt.tiny").updated(steps=20)
    assert registry.resolve(recipe).recipe == recipe


def test_fine_tuning_tests_all_images_so_that_runs_are_paired() -> None:
    config = prepare_finetune("igpt.tiny", settings=["steps=20"]).recipe.train
    assert (config.evaluate_images, config.num_test_images) == (64, None)
    config = prepare_finetune("igpt.tiny", settings=["steps=20", "evaluate_images=null"]).recipe.train
    assert (config.evaluate_images, config.num_test_images) == (None, None)
