"""A learning-rate search in a folder: trials are runs, finished ones are not repeated, and settings stay."""

import json
import math
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import isopix
from isopix.data.load import load_dataset
from isopix.recipes import registry
from isopix.recipes.recipe import Recipe
from isopix.runs import series
from isopix.runs.results import LRSearchResult, LRTrial, TrainingResult
from isopix.runs.resume import SETTINGS, folder_of_runs
from isopix.runs.series import check_trial, lr_grid, lr_selection, run_lr_search, trial_folder
from isopix.runs.start import TrainingStart, prepare_finetune, prepare_pretrain
from isopix.runs.training_log import RunObserver
from isopix.storage import log
from isopix.storage.run_folder import FOLDER_LOCK
from tests.trained import CPU, SILENT, StopAt, different_weights, logged, train

SMALL = ["depth=1", "width=16", "batch_size=16", "evaluate_images=40", "data.limit=100"]
WORDS = [*SMALL, "steps=30", "log_every=1000", "evaluate_every=100", "checkpoint_every=4"]
RECIPE = registry.resolve("igpt.digits", settings=WORDS).recipe
LRS = (1e38, 3.0, 0.03, 0.003, 0.0003)


def search(
    out: Path, observer: RunObserver = SILENT, recipe: Recipe = RECIPE, lrs: tuple[float, ...] = LRS
) -> LRSearchResult:
    return run_lr_search(TrainingStart(recipe), out, lrs, device=CPU, observer=observer)


def untimed(found: LRSearchResult) -> tuple[LRTrial, ...]:
    return tuple(replace(trial, seconds=0.0) for trial in found.trials)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> LRSearchResult:
    return search(tmp_path_factory.mktemp("search") / "lr")


def test_the_learning_rates_are_the_papers_after_any_first_one() -> None:
    assert lr_grid(0.01, 0.0003) == (0.01, 0.003, 0.001, 0.0003)
    assert lr_grid(0.02, 0.001) == (0.02, 0.01, 0.003, 0.001)
    for given in ["0.001..0.01", "0.01..0.0", "inf..1", "nan..1", "0.1", "1..0.1..0.01", "a..b"]:
        with pytest.raises(ValueError, match=f"lr is .search:{given}.; allowed: a number, search"):
            lr_selection(prepare_pretrain("igpt.digits", [f"lr=search:{given}"]))


def test_a_file_may_ask_for_a_search_and_a_word_for_a_number(tmp_path: Path) -> None:
    file = tmp_path / "search.yaml"
    file.write_text("train: {optimizer: {lr: search:0.03..0.01}}")
    selection = lr_selection(prepare_pretrain("igpt.digits", file=file))
    assert isinstance(selection, partial)
    assert selection.keywords == {"lrs": (0.03, 0.01)}
    assert "\ntrain.optimizer.lr: search:0.03..0.01 " in isopix.show("igpt.digits", file=file).document
    start = prepare_pretrain("igpt.digits", ["lr=0.1"], file=file)
    assert lr_selection(start) is None
    assert start.recipe.train.optimizer.lr == 0.1
    tuned = prepare_finetune("igpt.digits", ["learning_rate=search"], from_scratch=True)
    assert lr_selection(tuned) is not None
    for name in ("isotropic.study", "igpt.figure4"):
        with pytest.raises(ValueError, match="lr=search chooses the learning rate of pretrain or finetune"):
            isopix.reproduce(name, "lr=search", out=tmp_path / name, scale="tiny", plan=True)


@pytest.mark.parametrize(
    ("losses", "count", "best"),
    [
        ((2.0, 3.0), 2, 0.01),
        ((None, None, 2.0, 3.0), 4, 0.001),
        ((3.0, 2.0, 2.5), 3, 0.003),
        ((3.0, None, 3.5), 3, 0.01),  # the diverged trial between them is skipped
        ((3.0, 2.5, 2.5, 2.0, 1.0), 5, 0.0001),
        ((None, None, None, None, None), 5, None),
        ((-5.0, 3.0, -6.0), 3, 0.003),  # negative: one that failed to learn, which is worse than any other
        ((-2.0, -3.0, -3.0, -3.0, -3.0), 5, None),
    ],
)
@pytest.mark.parametrize("tuned", [False, True])
def test_the_search_ends_at_the_first_increase_and_the_lowest_loss_is_best(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    losses: tuple[float | None, ...],
    count: int,
    best: float | None,
    tuned: bool,
) -> None:
    remaining = iter(losses)

    def run(recipe: Recipe, lr: float, folder: Path, **options: object) -> LRTrial:
        loss = next(remaining)
        if loss is None:
            return LRTrial(lr, "diverged", 5, None, 1.0)
        status = "failed" if loss < 0 else "completed"
        return LRTrial(lr, status, 10, None if tuned else abs(loss), 1.0, -abs(loss) if tuned else None)

    monkeypatch.setattr(series, "train_at_lr", run)
    monkeypatch.setattr(series, "check_trial", lambda recipe, data, run, trial: trial)
    monkeypatch.setattr(series, "_measurement", lambda trial: None)
    found = search(tmp_path / "lr", lrs=lr_grid(0.01, 0.0001))
    assert found.finished
    assert (len(found.trials), found.best_lr) == (count, best)
    assert bool(found.failure) == (best is None)


def test_every_trial_has_its_status_and_the_best_is_selected(whole: LRSearchResult) -> None:
    assert [trial.status for trial in whole.trials] == ["non-finite", "diverged", "completed", "failed"]
    assert whole.best_lr == 0.03
    assert whole.remaining == (0.0003,)
    assert [logged(run, split="test") for run in whole.path.glob("lr-*")] == [[]] * 4
    diverged = log.read_log(trial_folder(whole.path, 3.0) / "log.jsonl")
    assert max(record["step"] for record in diverged) < RECIPE.train.steps / 2, "it was not stopped early"


def test_however_often_it_is_stopped_the_end_is_the_same(whole: LRSearchResult, tmp_path: Path) -> None:
    found = search(tmp_path / "lr", RunObserver(stop=StopAt(7)))
    while not found.finished:
        found = search(tmp_path / "lr", RunObserver(stop=StopAt(7)))
    assert untimed(found) == untimed(whole)
    for trial in found.trials:
        if trial.loss is not None:
            assert different_weights(*(trial_folder(each.path, trial.lr) for each in (found, whole))) == []


def test_a_finished_search_is_read_and_continues_with_smaller_learning_rates_alone(
    whole: LRSearchResult, tmp_path: Path
) -> None:
    written = list[dict[str, Any]]()
    observer = RunObserver(record=written.append)
    assert search(whole.path, observer).trials == whole.trials
    assert written == []
    assert search(tmp_path / "lr", lrs=(0.3, 0.03)).finished
    assert len(search(tmp_path / "lr", observer, lrs=(0.3, 0.03, 0.003)).trials) == 3
    assert max(each.get("learning_rate", 0.0) for each in written) == pytest.approx(0.003)


def accuracies(run: Path) -> dict[int, float]:
    return {each["step"]: each["accuracy"] for each in logged(run, split="validation")}


def test_a_search_for_fine_tuning_selects_by_validation_accuracy_and_resumes(tmp_path: Path) -> None:
    train("igpt.digits", tmp_path / "pre", *SMALL, "steps=2", "num_test_images=10")
    words = ["steps=60", "evaluate_every=10", "batch_size=32", "generative_weight=0"]

    def finetune(*words: str, out: str = "lr") -> TrainingResult:
        return isopix.finetune(tmp_path / "pre", *words, out=tmp_path / out, device="cpu")

    words.append("lr=search:0.03..0.01")
    run = finetune(*words)
    found = run.lr_search
    assert [trial.lr for trial in found.trials] == [0.03, 0.01]
    for trial in found.trials:
        seen = accuracies(trial_folder(tmp_path / "lr/selection", trial.lr))
        assert trial.accuracy == max(seen.values()) == seen[trial.step]
    assert found.best == max(found.trials, key=lambda trial: trial.accuracy)
    assert run.run.recipe.train.optimizer.lr == found.best_lr
    finetune(*words[:-1], "lr=0.01", out="alone")
    assert accuracies(tmp_path / "alone") == seen, "the second did not start from the weights of the run"
    assert finetune(*words).lr_search.trials == found.trials
    with pytest.raises(ValueError, match="generative_weight=0"):
        finetune(*words[:-2], words[-1])


@pytest.mark.parametrize(("share", "status"), [(0.995, "failed"), (0.985, "completed")])
def test_a_trial_near_the_uniform_loss_has_failed_whatever_the_frequencies(
    tmp_path: Path, share: float, status: str
) -> None:
    """Where codes are uniform, the loss of their frequencies lies at or above that of a uniform guess."""
    recipe = registry.resolve("igpt.digits", settings=[*SMALL, "steps=1", "num_colors=16"]).recipe
    run = train(recipe, tmp_path / "run").run
    uniform = math.log(16)
    baselines = {"kind": "baselines", "step": 0, "held_out": "validation"}
    baselines["nats"] = {"unigram": 1.01 * uniform}
    run.log.write_text(json.dumps(baselines) + "\n")
    trial = LRTrial(lr=0.1, status="completed", step=1, loss=share * uniform, seconds=1.0)
    checked = check_trial(recipe, load_dataset(recipe.data), run, trial)
    assert checked.status == status
    assert ("is not below 99% of the uniform loss 2.7726" in checked.reason) == (status == "failed")


def test_other_settings_or_learning_rates_are_refused(whole: LRSearchResult) -> None:
    with pytest.raises(ValueError, match=r"has train.seed=0, not 1; choose another --out"):
        search(whole.path, recipe=RECIPE.updated(seed=1))
    with pytest.raises(ValueError, match=r"has tried 1e\+38, 3.0, 0.03, 0.003, not 0.3, 0.03"):
        search(whole.path, lrs=(0.3, 0.03))


GIVEN = {"train": {"steps": 4, "lr": 0.1}, "data": {"workers": 2}, "pretrained": None}


def work(out: Path, *runs: str, **changes: object) -> None:
    with folder_of_runs(out, {**GIVEN, **changes}, "search"):
        for name in runs:
            (out / name).mkdir(exist_ok=True)


def names(out: Path) -> set[str]:
    return {path.name for path in out.iterdir()}


def test_the_same_call_continues_and_another_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "deep" / "out"
    work(out, "one")
    work(out, "two", data={"workers": 0})  # which changes no number
    before = names(out)
    assert before == {"one", "two", FOLDER_LOCK, SETTINGS}
    other = 'pretrained.run=null, not "a"; pretrained.step=null, not 3'
    for changes, difference in [
        ({"train": {"steps": 5, "lr": 0.2}}, "train.steps=4, not 5; train.lr=0.1, not 0.2"),
        ({"train": {"steps": 4}}, "train.lr=0.1, not null"),
        ({"pretrained": {"run": "a", "step": 3}}, other),
    ]:
        with pytest.raises(ValueError, match=f"^the search in .* has {difference}; choose another --out$"):
            work(out, **changes)
    assert names(out) == before


def test_a_mistake_before_the_first_run_leaves_no_folder(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt), folder_of_runs(out, GIVEN, "search"):
        raise KeyboardInterrupt
    assert not out.exists()
    work(out, "one")
    with pytest.raises(KeyboardInterrupt), folder_of_runs(out, GIVEN, "search"):
        raise KeyboardInterrupt
    assert "one" in names(out)
