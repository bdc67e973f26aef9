"""A learning-rate search in a folder: trials are runs, and finished ones are not repeated."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from isopix.recipes import registry
from isopix.recipes.recipe import Recipe
from isopix.runs.lr_search import run_lr_search, trial_folder, trial_recipe
from isopix.runs.observer import RunObserver
from isopix.runs.pretrain import train_recipe
from isopix.runs.results import LRSearch, LRSearchResult
from isopix.runs.start import TrainingStart
from isopix.storage import checkpoint, log

CPU = torch.device("cpu")
WORDS = [
    *("depth=1", "width=16", "steps=30", "batch_size=16", "log_every=1", "evaluate_every=100"),
    *("evaluate_images=40", "checkpoint_every=4", "data.limit=100"),
]
RECIPE = registry.resolve("igpt.digits", assignments=WORDS).recipe
START = TrainingStart(RECIPE, None)
LRS = (1e38, 3.0, 0.03, 0.003, 0.0003)


class ObserverFactory:
    """Records the trials that were started, and asks to stop after so many steps of them all."""

    def __init__(self, steps: int | None = None):
        self.steps, self.started = steps, list[float]()

    def __call__(self, title: str) -> RunObserver:
        self.started.append(float(title.split("lr ")[1].split(",", maxsplit=1)[0]))
        return RunObserver(stop=self.stop)

    def stop(self) -> bool:
        if self.steps is not None:
            self.steps -= 1
        return self.steps is not None and self.steps <= 0


def search(out: Path, observer_for: ObserverFactory | None = None, recipe: Recipe = RECIPE) -> LRSearch:
    start = TrainingStart(recipe, None)
    observers = observer_for or ObserverFactory()
    return run_lr_search(lambda: start, out, LRS, device=CPU, observer_for=observers).search


def untimed(found: LRSearch) -> LRSearch:
    return replace(found, trials=tuple(replace(trial, seconds=0.0) for trial in found.trials))


def weights(run: Path) -> dict[str, torch.Tensor]:
    found = checkpoint.load_latest(run / "checkpoints").checkpoint
    assert found is not None
    return found.tensors["model"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, LRSearch]:
    out = tmp_path_factory.mktemp("search") / "lr"
    return out, search(out)


def test_every_trial_has_its_status_and_the_best_is_selected(whole: tuple[Path, LRSearch]) -> None:
    _, found = whole
    statuses = ["non-finite", "diverged", "completed", "failed"]
    assert [trial.status for trial in found.trials] == statuses
    assert found.best is not None
    assert found.best.lr == 0.03
    assert found.remaining == (0.0003,)


def test_a_diverged_trial_is_stopped_early(whole: tuple[Path, LRSearch]) -> None:
    out, _ = whole
    steps = [record["step"] for record in log.read_log(trial_folder(out, 3.0) / "log.jsonl")]
    assert max(steps) < RECIPE.train.steps / 2


def test_a_trial_is_the_run_that_pretrain_makes(whole: tuple[Path, LRSearch], tmp_path: Path) -> None:
    out, found = whole
    recipe = RECIPE.updated(
        optimizer=replace(RECIPE.train.optimizer, lr=0.03),
    )
    train_recipe(recipe, tmp_path / "run", device=CPU, observer=RunObserver())
    ours, alone = weights(trial_folder(out, 0.03)), weights(tmp_path / "run")
    assert all(torch.equal(ours[name], alone[name]) for name in alone)
    (last,) = [
        record["loss_nats"]
        for record in log.read_log(tmp_path / "run" / "log.jsonl")
        if (record["step"], record.get("split")) == (30, "validation")
    ]
    assert found.scores[found.trials[2]] == -last


def test_no_trial_evaluates_a_test_image(whole: tuple[Path, LRSearch]) -> None:
    out, _ = whole
    logs = [log.read_log(path) for path in out.glob("lr-*/log.jsonl")]
    assert len(logs) == 4
    assert not any(record.get("split") == "test" for records in logs for record in records)


def test_however_often_it_is_stopped_the_end_is_the_same(
    whole: tuple[Path, LRSearch], tmp_path: Path
) -> None:
    out, once = whole
    found = search(tmp_path / "lr", ObserverFactory(7))
    while not found.finished:
        found = search(tmp_path / "lr", ObserverFactory(7))
    assert untimed(found) == untimed(once)
    for trial in found.trials:
        if trial.loss is not None:
            ours, theirs = (weights(trial_folder(each, trial.lr)) for each in (tmp_path / "lr", out))
            assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


def test_a_kill_before_a_status_was_written_changes_nothing(
    whole: tuple[Path, LRSearch], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every write of the search fails once; what had been trained is read, and the end is the same."""
    _, found = whole
    failed = set[int]()

    saved = LRSearchResult.saved

    def fail_once(result: LRSearchResult, path: Path) -> LRSearchResult:
        if len(result.trials) not in failed:
            failed.add(len(result.trials))
            raise KeyboardInterrupt
        return saved(result, path)

    monkeypatch.setattr(LRSearchResult, "saved", fail_once)
    for _ in found.trials:
        with pytest.raises(KeyboardInterrupt):
            search(tmp_path / "lr")
    assert untimed(search(tmp_path / "lr")) == untimed(found)


def test_a_finished_search_is_read_and_nothing_is_trained(whole: tuple[Path, LRSearch]) -> None:
    out, found = whole
    observer_for = ObserverFactory()
    assert search(out, observer_for) == found
    assert observer_for.started == []


def test_a_search_that_ended_at_its_smallest_learning_rate_continues_with_smaller_ones(
    tmp_path: Path,
) -> None:
    def run(*lrs: float, observer_for: ObserverFactory) -> LRSearch:
        found = run_lr_search(lambda: START, tmp_path / "lr", lrs, device=CPU, observer_for=observer_for)
        return found.search

    first = run(0.3, 0.03, observer_for=ObserverFactory())
    assert first.finished
    assert not first.worsened
    observer_for = ObserverFactory()
    then = run(0.3, 0.03, 0.003, observer_for=observer_for)
    assert then.worsened
    assert observer_for.started == [0.003]


def test_other_settings_or_learning_rates_are_refused(whole: tuple[Path, LRSearch]) -> None:
    out, _ = whole
    with pytest.raises(ValueError, match=r"has train.seed=0, not 1; choose another --out"):
        search(out, recipe=RECIPE.updated(seed=1))
    with pytest.raises(ValueError, match=r"has tried 1e\+38, 3.0, 0.03, 0.003, not 0.3, 0.03"):
        run_lr_search(lambda: START, out, (0.3, 0.03), device=CPU, observer_for=ObserverFactory())


@pytest.mark.parametrize("change", ["evaluate_images=0", "data.holdout=0", "data.train_on_validation=true"])
def test_without_validation_images_there_is_no_search(change: str) -> None:
    recipe = registry.resolve("igpt.digits", assignments=[*WORDS, change]).recipe
    with pytest.raises(ValueError, match=r"a learning rate is (chosen by|selected on) validation images"):
        trial_recipe(recipe)
