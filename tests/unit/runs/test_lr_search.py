"""A search in a folder: rungs are runs, what was done is not done again, and no other command touches it."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from isopix.recipes import registry
from isopix.recipes.recipe import Recipe
from isopix.runs.lr_search import FILE, pretrain_runner, search, trial_folder
from isopix.runs.pretrain import pretrain
from isopix.runs.training import RunObserver
from isopix.storage import checkpoint, log
from isopix.storage.atomic import write_json
from isopix.storage.lock import exclusive_lock
from isopix.storage.log import RunLog
from isopix.storage.run_folder import RunFolder
from isopix.train.lr_search import LRSearch

CPU = torch.device("cpu")
WORDS = [
    *("depth=1", "width=16", "steps=30", "batch_size=16", "log_every=1", "evaluate_every=100"),
    *("evaluate_images=40", "checkpoint_every=4", "data.limit=100"),
]
RECIPE = registry.resolve("igpt.digits", assignments=WORDS).recipe
RATES = (1e38, 3.0, 0.03, 0.003, 0.0003)


class Looker:
    """Counts the rungs that were begun, and asks to stop after so many steps of them all."""

    def __init__(self, steps: int | None = None):
        self.steps, self.begun = steps, list[float]()

    @contextmanager
    def __call__(self, rate: float) -> Iterator[RunObserver]:
        self.begun.append(rate)
        yield RunObserver(stop=self.stop)

    def stop(self) -> bool:
        if self.steps is not None:
            self.steps -= 1
        return self.steps is not None and self.steps <= 0


def look(out: Path, looker: Looker | None = None, recipe: Recipe = RECIPE) -> LRSearch:
    return search(out, RATES, training=pretrain_runner(recipe, CPU), watching=looker or Looker())


def untimed(descent: LRSearch) -> LRSearch:
    return replace(descent, rungs=tuple(replace(rung, seconds=0.0) for rung in descent.rungs))


def weights(run: Path) -> dict[str, torch.Tensor]:
    found = checkpoint.load_latest(run / "checkpoints").checkpoint
    assert found is not None
    return found.tensors["model"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, LRSearch]:
    out = tmp_path_factory.mktemp("search") / "lr"
    return out, look(out)


def test_every_rung_has_its_fate_and_the_best_is_chosen(whole: tuple[Path, LRSearch]) -> None:
    _, descent = whole
    fates = ["non-finite", "spiked", "final", "final"]
    assert [rung.status for rung in descent.rungs] == fates
    assert descent.chosen is not None
    assert descent.chosen.rate == 0.03
    assert descent.untried == (0.0003,)


def test_a_dead_rung_is_stopped_early(whole: tuple[Path, LRSearch]) -> None:
    out, _ = whole
    steps = [record["step"] for record in log.read_log(trial_folder(out, 3.0) / "log.jsonl")]
    assert max(steps) < RECIPE.train.steps / 2


def test_a_rung_is_the_run_that_pretrain_makes(whole: tuple[Path, LRSearch], tmp_path: Path) -> None:
    out, descent = whole
    recipe = RECIPE.updated(
        optimizer=replace(RECIPE.train.optimizer, lr=0.03),
    )
    pretrain(recipe, tmp_path / "run", device=CPU, observer=RunObserver())
    ours, alone = weights(trial_folder(out, 0.03)), weights(tmp_path / "run")
    assert all(torch.equal(ours[name], alone[name]) for name in alone)
    (last,) = [
        record["loss_nats"]
        for record in log.read_log(tmp_path / "run" / "log.jsonl")
        if (record["step"], record.get("split")) == (30, "validation")
    ]
    assert descent.losses[descent.rungs[2]] == last


def test_no_rung_grades_a_test_image(whole: tuple[Path, LRSearch]) -> None:
    out, _ = whole
    logs = [log.read_log(path) for path in out.glob("lr-*/log.jsonl")]
    assert len(logs) == 4
    assert not any(record.get("split") == "test" for records in logs for record in records)


def test_however_often_it_is_stopped_the_end_is_the_same(
    whole: tuple[Path, LRSearch], tmp_path: Path
) -> None:
    out, descent = whole
    found = look(tmp_path / "lr", Looker(7))
    while not found.finished:
        found = look(tmp_path / "lr", Looker(7))
    assert untimed(found) == untimed(descent)
    for rung in descent.rungs:
        if rung.loss is not None:
            ours, once = (weights(trial_folder(each, rung.lr)) for each in (tmp_path / "lr", out))
            assert all(torch.equal(ours[name], once[name]) for name in once)


def test_a_kill_before_a_fate_was_written_costs_no_other_answer(
    whole: tuple[Path, LRSearch], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every write of the search fails once; what had been trained is read, and the end is the same."""
    _, descent = whole
    failed = set[int]()

    def fail_once(path: Path, values: dict[str, Any]) -> None:
        if len(values["rungs"]) not in failed:
            failed.add(len(values["rungs"]))
            raise KeyboardInterrupt
        write_json(path, values)

    monkeypatch.setattr("isopix.runs.lr_search.write_json", fail_once)
    for _ in range(len(descent.rungs) + 1):
        with pytest.raises(KeyboardInterrupt):
            look(tmp_path / "lr")
    assert untimed(look(tmp_path / "lr")) == untimed(descent)


def test_what_a_kill_before_the_first_checkpoint_left_is_begun_anew(tmp_path: Path) -> None:
    folder = trial_folder(tmp_path / "lr", RATES[0])
    RunFolder.create(folder).recipe.write_text("{}")
    (folder / "checkpoints" / ".tmp-step").mkdir()
    write_json(
        tmp_path / "lr" / FILE, {"settings": pretrain_runner(RECIPE, CPU).settings, "rates": [], "rungs": []}
    )
    assert look(tmp_path / "lr", Looker(3)).rungs[0].fate == "non-finite"


def test_a_finished_search_is_read_and_nothing_is_trained(whole: tuple[Path, LRSearch]) -> None:
    out, descent = whole
    looker = Looker()
    assert look(out, looker) == descent
    assert looker.begun == []


def test_a_search_that_ended_at_its_smallest_rate_goes_on_with_smaller_ones(tmp_path: Path) -> None:
    training = pretrain_runner(RECIPE, CPU)
    first = search(tmp_path / "lr", (0.3, 0.03), training=training, watching=Looker())
    assert first.finished
    assert not first.risen
    looker = Looker()
    then = search(tmp_path / "lr", (0.3, 0.03, 0.003), training=training, watching=looker)
    assert then.risen
    assert looker.begun == [0.003]


def test_other_settings_or_rates_are_refused(whole: tuple[Path, LRSearch]) -> None:
    out, _ = whole
    with pytest.raises(ValueError, match=r"has seed=0, and 1 is asked for; choose another --out"):
        look(
            out,
            recipe=RECIPE.updated(
                seed=1,
            ),
        )
    with pytest.raises(ValueError, match=r"has tried 1e\+38, 3.0, 0.03, 0.003, not 0.3, 0.03"):
        search(out, (0.3, 0.03), training=pretrain_runner(RECIPE, CPU), watching=Looker())


def test_a_search_in_use_is_refused(whole: tuple[Path, LRSearch]) -> None:
    out, _ = whole
    with exclusive_lock(out, "folder"), pytest.raises(ValueError, match="is in use by process"):
        look(out)


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    with pytest.raises(ValueError, match="is not empty, and holds no descent"):
        look(tmp_path)
    with pytest.raises(ValueError, match="part of its path is a file"):
        look(tmp_path / "mine" / "lr")
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


@pytest.mark.parametrize("change", ["evaluate_images=0", "data.holdout=0", "data.train_on_validation=true"])
def test_without_validation_images_there_is_nothing_to_choose_by(change: str) -> None:
    recipe = registry.resolve("igpt.digits", assignments=[*WORDS, change]).recipe
    with pytest.raises(ValueError, match="a rate is chosen by validation images"):
        pretrain_runner(recipe, CPU)


def test_a_mistake_leaves_the_folder_open_to_the_mended_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RunLog, "__init__", _mistake)
    with pytest.raises(ValueError, match="a mistake"):
        look(tmp_path / "lr")
    monkeypatch.undo()
    assert (
        look(
            tmp_path / "lr",
            Looker(1),
            RECIPE.updated(
                seed=1,
            ),
        ).rungs
        == ()
    )


def _mistake(self: RunLog, path: Path) -> None:
    raise ValueError("a mistake")
