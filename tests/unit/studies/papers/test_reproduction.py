"""Trials of papers: what validation selects, and a folder that continues where it was stopped."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from isopix.finetuning.results import EvaluationResult
from isopix.recipes import igpt
from isopix.recipes.cost import recipe_cost
from isopix.recipes.published import TableRow, Value
from isopix.recipes.recipe import Recipe
from isopix.studies.papers.protocol import Setup, find_protocol
from isopix.studies.papers.reproduction import Reproduction, write_table
from isopix.studies.papers.trials import NO_TEST, FineTune, Pretrain, kept_weights
from isopix.studies.results import ReproductionResult
from tests.golden.values import check_golden
from tests.unit.reporting.cases import words
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
    record, selection = finetune().run(commands, tmp_path)
    assert selection["selected"] == ["optimizer.lr=0.01"]
    assert selection["step"] == 20
    assert EvaluationResult.read(record).metrics.accuracy == 0.2
    assert [name for name, _, _ in commands.calls].count("evaluate") == 1
    assert all(NO_TEST in words for name, _, words in commands.calls if name == "finetune")


def test_a_grid_of_one_setting_trains_and_tests_one_run(tmp_path: Path) -> None:
    commands = FakeVerbs(score)
    finetune(settings=GRID[0], grid=((),)).run(commands, tmp_path)
    assert [run for _, run, _ in commands.calls] == [tmp_path / "tuned"] * 2


def test_a_sequential_search_ends_after_the_first_fall(tmp_path: Path) -> None:
    lower = (("optimizer.lr=0.01",), ("optimizer.lr=0.001",), ("optimizer.lr=0.1",))
    commands = FakeVerbs(score)
    _, selection = finetune(sequential=True, grid=lower).run(commands, tmp_path)
    tried = [words[1] for name, _, words in commands.calls if name == "finetune"]
    assert tried == ["optimizer.lr=0.01", "optimizer.lr=0.001"]
    assert selection["selected"] == ["optimizer.lr=0.01"]


def test_the_refit_trains_on_validation_for_the_selected_steps(tmp_path: Path) -> None:
    commands = FakeVerbs(score)
    record, _ = finetune(refit=True).run(commands, tmp_path)
    name, out, words = commands.calls[-2]
    assert (name, out) == ("finetune", tmp_path / "tuned" / "refit")
    assert {"optimizer.lr=0.01", "data.train_on_validation=true", "train.steps=20"} <= set(words)
    assert words.index("train.steps=20") > words.index("steps=30"), "the last of equal settings counts"
    assert record.is_relative_to(out)


class Diverging(FakeVerbs):
    def __call__(self, command: str, run: Path | Recipe, *settings: str, **options: Any) -> Path:
        if "optimizer.lr=0.01" in settings:
            raise RuntimeError("the loss is not finite")
        return super().__call__(command, run, *settings, **options)


def test_a_rate_that_diverges_is_left_out(tmp_path: Path) -> None:
    _, selection = finetune().run(Diverging(score), tmp_path)
    assert selection["selected"] == ["optimizer.lr=0.001"]
    diverged = selection["tried"][1]
    assert (diverged["problem"], diverged["validation_accuracy"]) == ("the loss is not finite", None)
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


TABLE, SETUP = find_protocol("igpt.table1"), Setup()


def run_all(path: Path, commands: FakeVerbs) -> list[str]:
    with Reproduction.create(path, SETUP) as found:
        return [found.run(trial, commands).status for trial in TABLE.trials(SETUP)]


def measured(path: Path) -> list[Any]:
    with Reproduction.create(path, SETUP) as found:
        result = write_table(TABLE, found)
    assert ReproductionResult.read(result.path) == result
    shown = zip(result.rows, result.tables()[0].rows, strict=True)
    return [cells[2] for row, cells in shown if row.measured]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), RuntimeError("out of memory\nhere")])
def test_what_was_stopped_or_failed_is_tried_again_and_nothing_else(
    tmp_path: Path, error: BaseException
) -> None:
    with suppress(KeyboardInterrupt):
        assert run_all(tmp_path / "out", FakeVerbs(probe=error)) == ["done", "failed"]
    assert measured(tmp_path / "out") == [""]
    with Reproduction.create(tmp_path / "out", SETUP) as found:
        assert write_table(TABLE, found).failure.startswith("failed: probe-igpt-l-translated-digits")
    commands = FakeVerbs()
    assert run_all(tmp_path / "out", commands) == ["done", "done"]
    assert [name for name, _, _ in commands.calls] == ["probe"]
    assert measured(tmp_path / "out") == ["30.0"]


def test_numbers_come_from_the_run_folder(tmp_path: Path) -> None:
    """A deleted record is measured again; until then its cell is empty."""
    run_all(tmp_path / "out", FakeVerbs())
    (record,) = (tmp_path / "out").glob("runs/*/probe/*.json")
    record.unlink()
    assert measured(tmp_path / "out") == [""]
    commands = FakeVerbs()
    run_all(tmp_path / "out", commands)
    assert [name for name, _, _ in commands.calls] == ["probe"]


def test_another_setup_is_refused(tmp_path: Path) -> None:
    run_all(tmp_path / "out", FakeVerbs())
    other = Setup(scale="small")
    with (
        pytest.raises(ValueError, match='scale="tiny", not "small"'),
        Reproduction.create(tmp_path / "out", other),
    ):
        pass


@pytest.mark.parametrize("scale", ["tiny", "paper"])
def test_the_table_and_the_page_of_a_protocol_are_golden(tmp_path: Path, scale: str) -> None:
    found, setup = find_protocol("igpt.table4"), Setup(scale, settings=("steps=7",) * (scale == "tiny"))
    with Reproduction.create(tmp_path, setup) as reproduction:
        for trial in found.trials(setup):
            reproduction.run(trial, FakeVerbs())
        result = write_table(found, reproduction)
    texts = [str(result), result.path.with_name("table.md").read_text(), words(result.path.read_text())]
    check_golden("results", f"igpt.table4 {scale}", [each.splitlines() for each in texts])


def test_published_numbers_keep_their_decimals() -> None:
    row = TableRow("", "", {"loss": Value(2.08951), "accuracy": Value(64.03)})
    texts = dict.fromkeys(("protocol", "experiment", "scale", "statement", "note"), "")
    units, rows = {"loss": "nats", "accuracy": "%"}, (row, replace(row, measured=True))
    (table, _) = ReproductionResult(**texts, units=units, rows=rows, trials={}).tables()
    assert [cells[2:4] for cells in table.rows] == [["2.08951", "64.03"], ["2.0895", "64.0"]]
