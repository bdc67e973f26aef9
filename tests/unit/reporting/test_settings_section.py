"""The settings of a run by group, with every part under its own label."""

from pathlib import Path

import pytest

from isopix.recipes import registry
from isopix.reporting.run_reader import read_run
from isopix.reporting.settings_section import grouped_settings
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
