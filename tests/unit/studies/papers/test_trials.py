"""What validation selects, and that nothing is selected on test images."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from isopix.core.overrides import parse
from isopix.recipes import igpt
from isopix.recipes.cost import recipe_cost
from isopix.recipes.recipe import Recipe
from isopix.storage.atomic import read_json
from isopix.studies.papers.setup import Setup
from isopix.studies.papers.trials import NO_TEST, FineTune, Pretrain, kept_weights
from tests.unit.studies.papers.fakes import FakeVerbs

GRID = (("optimizer.lr=0.1",), ("optimizer.lr=0.01",), ("optimizer.lr=0.001",))
# The rate that is best on validation images is worst on test images.
SCORES = {"optimizer.lr=0.1": (0.4, 0.9), "optimizer.lr=0.01": (0.8, 0.2), "optimizer.lr=0.001": (0.5, 0.95)}


def score(settings: Sequence[str]) -> tuple[float, float]:
    return next(found for lr, found in SCORES.items() if lr in settings)


def finetune(**changes: object) -> FineTune:
    network = Pretrain("net", igpt.digits())
    values = {"settings": ("steps=30",), "grid": GRID, **changes}
    return FineTune("tuned", network, **values)


def test_the_grid_is_selected_on_validation_and_not_on_test(tmp_path: Path) -> None:
    commands = FakeVerbs(score)
    outcome = finetune().run(commands, tmp_path)
    assert outcome.selection["selected"] == ["optimizer.lr=0.01"]
    assert outcome.selection["step"] == 20
    assert read_json(outcome.record)["metrics"]["accuracy"] == 0.2
    assert [name for name, _, _ in commands.calls].count("evaluate") == 1
    assert all(NO_TEST in words for name, _, words in commands.calls if name == "finetune")


def test_a_sequential_search_ends_after_the_first_fall(tmp_path: Path) -> None:
    lower = (("optimizer.lr=0.01",), ("optimizer.lr=0.001",), ("optimizer.lr=0.1",))
    commands = FakeVerbs(score)
    outcome = finetune(sequential=True, grid=lower).run(commands, tmp_path)
    tried = [words[1] for name, _, words in commands.calls if name == "finetune"]
    assert tried == ["optimizer.lr=0.01", "optimizer.lr=0.001"]
    assert outcome.selection["selected"] == ["optimizer.lr=0.01"]


def test_the_refit_trains_on_validation_for_the_selected_steps(tmp_path: Path) -> None:
    commands = FakeVerbs(score)
    outcome = finetune(refit=True).run(commands, tmp_path)
    name, out, words = commands.calls[-2]
    assert (name, out) == ("finetune", tmp_path / "tuned" / "refit")
    assert {"optimizer.lr=0.01", "data.train_on_validation=true", "train.steps=20"} <= set(words)
    assert words.index("train.steps=20") > words.index("steps=30"), "the last of equal settings counts"
    assert outcome.record.is_relative_to(out)


class Diverging(FakeVerbs):
    def __call__(self, command: str, run: Path | Recipe, *settings: str, **options: Any) -> Path:
        if "optimizer.lr=0.01" in settings:
            raise RuntimeError("the loss is not finite")
        return super().__call__(command, run, *settings, **options)


def test_a_rate_that_diverges_is_left_out(tmp_path: Path) -> None:
    outcome = finetune().run(Diverging(score), tmp_path)
    assert outcome.selection["selected"] == ["optimizer.lr=0.001"]
    assert outcome.selection["tried"][1]["problem"] == "the loss is not finite"
    with pytest.raises(RuntimeError, match="every fine-tuning of tuned failed: the loss is not finite"):
        finetune(grid=GRID[1:2]).run(Diverging(score), tmp_path)


def test_without_a_selected_checkpoint_the_last_step_counts(tmp_path: Path) -> None:
    run = FakeVerbs(score)("finetune", tmp_path, "optimizer.lr=0.1", out=tmp_path / "run")
    (run / "best").rmdir()
    assert kept_weights(run) == (30, 0.2)


def test_the_cost_is_that_of_every_training() -> None:
    recipe = igpt.digits()
    per_image = recipe_cost(recipe).training_flops
    assert Pretrain("net", recipe).training_flops() == per_image * 400 * 128
    tuned = finetune(refit=True, settings=("steps=30", "batch_size=8"))
    assert tuned.training_flops() == 4 * per_image * 30 * 8


def test_the_data_of_pre_training_and_of_labels() -> None:
    paper = Setup("paper")
    assert paper.datasets("cifar10", "stl10") == ("cifar10", "stl10")
    assert paper.network("l", igpt.l()).recipe == igpt.l()
    assert Setup("paper", data="cifar100").network("l", igpt.l()).recipe.data.source == "imagenet-1k"
    assert Setup("tiny").datasets("cifar10", "stl10") == ("translated-digits",)
    both = Setup("tiny", data="digits")
    network = both.network("d", igpt.tiny())
    assert both.datasets("cifar10") == (network.recipe.data.source,) == ("digits",)
    assert both.probe_data(network, "digits") is None, "its other settings apply too"
    assert both.probe_data(network, "cifar10") == "cifar10"
    other = Setup("tiny", data="digits", pretrain_data="stl10").network("d", igpt.tiny())
    assert other.recipe.data.source == "stl10"


def test_a_path_with_quotes_is_a_value() -> None:
    words = Setup().finetune_settings('my "photos": 1')
    assert parse(words)["data.source"] == 'my "photos": 1'
