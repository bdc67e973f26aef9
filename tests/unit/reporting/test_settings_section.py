"""The settings of a run by group, with every part under its own label."""

from pathlib import Path

import pytest

from isopix.recipes import registry
from isopix.reporting.run_record import read_run
from isopix.reporting.run_sections import differences_section, grouped_settings
from isopix.runs.finetune import prepare_finetune
from tests.unit.reporting.cases import bare


@pytest.mark.parametrize("name", registry.RECIPES)
def test_every_recipe_has_its_settings_by_group(tmp_path: Path, name: str) -> None:
    recipe = registry.find(name)
    found = {
        group: dict(items)
        for group, items in grouped_settings(read_run(bare(tmp_path / "run", recipe))).items()
    }
    assert list(found) == ["model", "objective", "data", "train"]
    assert found["model"]["block"] == recipe.model.block.label()
    assert found["train"]["optimizer"] == recipe.train.optimizer.label()
    assert found["objective"]["objective"] == recipe.objective.label()


@pytest.mark.parametrize(
    ("name", "words", "shown"),
    [
        ("patchformer.tiny", [], "60 % of positions in every image, in 2 × 2 blocks (20 of 36 positions)"),
        ("patchformer.base", [], "60 % of positions in every image, in 2 × 2 blocks (116 of 196 positions)"),
        ("patchformer.base", ["objective.mask.exact_count=118"], "118 positions in every image (118 of 196"),
        ("igpt.digits_bert", [], "15 % of positions, independent (9.6 of 64 positions)"),
    ],
)
def test_masked_positions_are_counted(tmp_path: Path, name: str, words: list[str], shown: str) -> None:
    recipe = registry.resolve(name, assignments=words).recipe
    found = dict(grouped_settings(read_run(bare(tmp_path / "run", recipe)))["objective"])
    assert found["mask"].startswith(shown)


def test_runs_are_compared_by_the_settings_that_differ(tmp_path: Path) -> None:
    first = registry.find("igpt.digits")
    runs = {
        name: read_run(bare(tmp_path / name, recipe))
        for name, recipe in {"a": first, "b": first.updated(depth=7, steps=9)}.items()
    }
    [panel] = differences_section(runs).panels
    [table] = panel.tables
    assert [title for title, _ in table.columns] == ["setting", "a", "b"]
    assert [row.cells for row in table.rows] == [
        ["model.depth", str(first.model.depth), "7"],
        ["train.steps", str(first.train.steps), "9"],
    ]


def test_a_setting_that_one_run_lacks_is_a_difference(tmp_path: Path) -> None:
    recipes = {name: registry.find(f"igpt.{name}") for name in ("digits", "digits_bert")}
    runs = {name: read_run(bare(tmp_path / name, recipe)) for name, recipe in recipes.items()}
    rows = {row.cells[0]: row.cells[1:] for row in differences_section(runs).panels[0].tables[0].rows}
    assert rows["objective.kind"] == ["autoregressive", "masked"]
    assert rows["objective.mask.ratio"] == ["–", "0.15"]


def test_equal_settings_are_said_to_be_equal(tmp_path: Path) -> None:
    runs = {name: read_run(bare(tmp_path / name, registry.find("igpt.digits"))) for name in ("a", "b")}
    assert differences_section(runs).panels[0].notes == ["All settings of these runs are equal."]


def test_fine_tuning_has_its_own_group(tmp_path: Path) -> None:
    recipe = prepare_finetune(
        "patchformer.tiny", assignments=["data.labels_per_class=10%", "data.subset=2"]
    ).recipe
    found = {
        group: dict(items)
        for group, items in grouped_settings(read_run(bare(tmp_path / "run", recipe))).items()
    }
    assert found["finetune"]["loss"] == "L_CLF"
    assert found["finetune"]["mask_ratio"] == "0.1 (4 of 36 positions)"
    assert found["data"]["labels_per_class"] == "10%"
