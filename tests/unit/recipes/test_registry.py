from dataclasses import replace
from pathlib import Path

import pytest
import torch

import isopix
from isopix.core.config import from_dict, to_dict
from isopix.recipes import registry
from isopix.recipes.cost import recipe_cost
from isopix.recipes.plan_result import PlanResult
from isopix.recipes.recipe import Recipe
from isopix.recipes.results import Setting

# iGPT table 2 and the released code, positions of the stated resolution counted (L and XL also at others).
PARAMETERS = {
    "igpt.s": 76_571_648,
    "igpt.m": 455_157_760,
    "igpt.l": 1_362_250_752,
    "igpt.xl": 6_810_875_904,
    "igpt.s_bert": 76_571_648 - 512,
    "igpt.m_bert": 455_157_760 - 1024,
    "igpt.l_bert": 1_362_250_752 - 1536,
}


@pytest.mark.parametrize("name", PARAMETERS)
def test_parameters_are_those_of_the_paper_to_the_last_digit(name: str) -> None:
    assert recipe_cost(registry.find(name)).parameters == PARAMETERS[name]


def test_xl_at_32_has_the_printed_count() -> None:
    recipe = registry.resolve("igpt.xl", assignments=["data.rows=32", "data.cols=32"]).recipe
    assert recipe_cost(recipe).parameters == 6_801_438_720


@pytest.mark.parametrize("name", registry.RECIPES)
def test_recipe_to_file_to_recipe_is_the_identity(name: str) -> None:
    recipe = registry.find(name)
    assert recipe.name == name
    assert from_dict(Recipe, to_dict(recipe)) == recipe


def test_an_unknown_recipe_suggests_the_nearest_and_lists_all() -> None:
    with pytest.raises(ValueError, match=r"^unknown recipe 'igpt.tny'; did you mean 'igpt.tiny'. recipes: "):
        registry.find("igpt.tny")


def test_training_flops_of_s_are_the_known_count() -> None:
    """3 * (2 * 12 L d^2 + 2 V d + 2 L (n + 1) d) * n."""
    n, d, depth, colors = 1024, 512, 24, 512
    expected = 3 * (24 * depth * d * d + 2 * colors * d + 2 * depth * (n + 1) * d) * n
    assert recipe_cost(registry.find("igpt.s")).training_flops == expected


def test_later_layers_win_and_say_so(tmp_path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("depth: 2\nwidth: 32\nblock:\n  heads: 4\n")
    resolved = registry.resolve(
        "igpt.tiny", file=file, options={"seed": 5, "data.limit": None}, assignments=["width=64"]
    )
    assert (resolved.recipe.model.depth, resolved.recipe.model.width, resolved.recipe.model.block.heads) == (
        2,
        64,
        4,
    )
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
    with pytest.raises(ValueError, match="rows is 0"):
        registry.resolve("vit.tiny", assignments=["data.size=0"])


def test_a_mapping_on_the_command_line_merges_as_a_file_does(tmp_path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("data: {rows: 16}\n")
    words = registry.resolve("igpt.tiny", assignments=["data={rows: 16}"])
    assert words.recipe == registry.resolve("igpt.tiny", file=file).recipe
    assert words.recipe.data.source == "cifar10"
    assert words.origins == {"data.rows": "command line"}


@pytest.mark.parametrize(
    ("words", "path", "value"),
    [
        (["steps=010"], "train.steps", 10),
        (["lr=1e-3"], "train.optimizer.lr", 0.001),
        (["block.norm=layer_norm"], "model.block.norm.kind", "layer_norm"),
        (["block.norm.epsilon=0.5", "block.norm=layer_norm"], "model.block.norm.epsilon", 0.5),
        (["objective.mask.ratio=0.5", "objective=masked"], "objective.mask.ratio", 0.5),
        (["data.holdout=null"], "data.holdout", None),
    ],
)
def test_words_mean_what_they_say(words: list[str], path: str, value: object) -> None:
    resolved = registry.resolve("igpt.tiny", assignments=words)
    assert {each.path: each.value for each in registry.settings(resolved)}[path] == value


@pytest.mark.parametrize(
    "words",
    [
        ["objective.mask=per_channel", "objective.corruption=zero"],
        ["codec=full_patch", "codec.patch_size=8", "data.size=40"],  # the default, 16, does not divide 40
    ],
)
def test_settings_that_are_valid_only_together_are_changed_together(words: list[str]) -> None:
    assert registry.resolve("vit.tiny", assignments=words) == registry.resolve(
        "vit.tiny", assignments=words[::-1]
    )


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("dpth=4", "unknown setting 'dpth'; did you mean 'model.depth'? isopix recipe show NAME lists all"),
        ("learning_rate=1", "unknown setting 'learning_rate'; did you mean 'train.optimizer.lr'? isopix"),
        ("block.hedas=4", "unknown setting 'model.block.hedas'; did you mean 'model.block.heads'? "),
        ("block.kind=mixr", "'model.block.kind' is 'mixr'; did you mean 'mixer'? known: axial, convolution"),
        ("finetune.dropout=0.1", "'finetune' has no settings inside; it is null here"),
        ("depth", "'depth' is not a setting; write path=value, as in depth=4 or block.heads=2"),
        ("depth=true", "model.depth is True; it must be a number"),
        ("evaluators=[{kind: knn, every: x}]", "train.evaluators.0.every is 'x'; it must be a valid integer"),
        ("block.norm=1", "'model.block.norm' is 1; known: layer_norm, rms_norm"),
        ("block.norm.epsilon=-1", "model.block.norm: epsilon is -1.0; allowed: above 0"),
        ("accumulate=3", "train: batch_size 16 is not a multiple of accumulate 3"),
    ],
)
def test_wrong_settings_name_the_right_ones(word: str, message: str) -> None:
    with pytest.raises(ValueError) as error:  # noqa: PT011  the message is compared below
        registry.resolve("igpt.tiny", assignments=[word])
    assert str(error.value).startswith(message)
    assert "\n" not in str(error.value)


def test_heads_that_do_not_divide_the_width_are_refused() -> None:
    with pytest.raises(ValueError, match="width 128 is not a multiple of heads 3"):
        recipe_cost(registry.resolve("igpt.tiny", assignments=["block.heads=3"]).recipe)


def test_every_weight_is_a_function_of_the_seed() -> None:
    def first(seed: int) -> torch.Tensor:
        recipe = registry.resolve("igpt.digits", assignments=[f"seed={seed}"]).recipe
        colors = torch.arange(17).float()[:, None].expand(17, 3) * 15
        return recipe.build(recipe.model.codec.build(recipe.grid, colors)).backbone.blocks[0].mlp.up.weight

    torch.manual_seed(1)
    one = first(0)
    torch.manual_seed(2)
    assert torch.equal(one, first(0))
    assert not torch.equal(one, first(1))


def test_a_setting_that_a_later_one_makes_meaningless_is_named() -> None:
    with pytest.raises(
        ValueError,
        match=r"'model\.codec\.palette_file' of the option is no longer a setting after later overrides",
    ):
        registry.resolve("igpt.digits", options={"codec.palette_file": "x.npz"}, assignments=["codec=bytes"])


def test_shown_settings_say_what_they_mean_and_where_a_changed_one_comes_from() -> None:
    found = isopix.show_recipe("igpt.tiny", "depth=6")
    depth = next(each for each in found.settings if each.path == "model.depth")
    assert depth == Setting("model.depth", 6, "command line", 4, "Number of blocks.")
    assert ["model.depth=6  (command line; recipe: 4)", "Number of blocks."] in [
        list(row) for table in found.tables() for row in table.rows
    ]
    assert isopix.list_recipes().recipes.keys() >= {"igpt.tiny", "isotropic.tiny-BLOCK-ENCODING-DEPTH"}


def test_a_plan_is_that_of_the_recipe_with_its_settings(tmp_path: Path) -> None:
    found = isopix.plan("igpt.digits", "depth=1", "width=16", price=2.0, devices=("2xH100",), device="cpu")
    recipe = registry.resolve("igpt.digits", assignments=["depth=1", "width=16"]).recipe
    assert found.parameters == recipe_cost(recipe).parameters
    assert found.seconds == pytest.approx(found.images / found.images_per_second)
    assert [each.name for each in found.parallel if found.recommended(each)] == ["ddp"]
    assert all(each.price == pytest.approx(2 * each.hours) for each in found.device_hours)
    saved = found.saved(tmp_path / "plan.json")
    assert PlanResult.read(tmp_path / "plan.json") == saved
    huge = replace(found.parallel[0], memory_limit=1)
    assert not huge.fits
    assert replace(found, parallel=(huge, *found.parallel[1:])).remedies(huge)[:1] == ["recompute=true"]
