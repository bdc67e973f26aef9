"""A trial that has learned nothing has failed, and no setting of the log hides a loss that diverges."""

import json
import math
from pathlib import Path

import pytest
import torch

import isopix
from isopix.data.dataset import load_dataset
from isopix.recipes import registry
from isopix.runs.finetune import prepare_finetune
from isopix.runs.lr_search import check_trial, run_lr_search, trial_folder, trial_recipe
from isopix.runs.observer import RunObserver
from isopix.runs.pretrain import train_recipe
from isopix.runs.results import LRSearch, LRTrial
from isopix.runs.start import TrainingStart
from isopix.storage import log
from tests.unit.runs.test_lr_search import ObserverFactory, untimed

CPU = torch.device("cpu")
SMALL = ["depth=1", "width=16", "batch_size=16", "evaluate_images=40", "data.limit=100"]


def search(out: Path, *words: str, lrs: tuple[float, ...] = (3.0, 0.003)) -> LRSearch:
    recipe = registry.resolve("igpt.digits", assignments=[*SMALL, *words]).recipe
    start = TrainingStart(recipe, None)
    return run_lr_search(lambda: start, out, lrs, device=CPU, observer_for=ObserverFactory()).search


@pytest.mark.parametrize("log_every", [1, 7, 1000])
def test_divergence_does_not_depend_on_how_often_the_log_is_written(tmp_path: Path, log_every: int) -> None:
    found = search(tmp_path / "lr", "steps=60", f"log_every={log_every}", lrs=(3.0,))
    [trial] = found.trials
    reference = search(tmp_path / "other", "steps=60", "log_every=3", lrs=(3.0,))
    assert trial.status == "diverged"
    assert untimed(found) == untimed(reference)
    assert found.best is None


def test_a_trial_that_ends_above_the_frequencies_of_the_codes_has_failed(tmp_path: Path) -> None:
    found = search(tmp_path / "lr", "steps=2", "log_every=1", lrs=(3.0, 1e-9))
    assert [trial.status for trial in found.trials] == ["diverged", "failed"]  # above twice its first loss
    assert "is not below the unigram baseline" in found.trials[1].reason
    assert found.best is None


def test_a_search_for_fine_tuning_selects_by_validation_accuracy_and_resumes(tmp_path: Path) -> None:
    recipe = registry.resolve("igpt.digits", assignments=[*SMALL, "steps=2", "num_test_images=10"]).recipe
    train_recipe(recipe, tmp_path / "pre", device=CPU, observer=RunObserver())
    words = ["steps=60", "evaluate_every=10", "batch_size=32", "generative_weight=0"]
    arguments = {"out": tmp_path / "lr", "max_lr": 0.03, "min_lr": 0.01, "device": "cpu"}
    found = isopix.search_lr(tmp_path / "pre", *words, **arguments)
    assert [trial.lr for trial in found.trials] == [0.03, 0.01]
    for trial in found.trials:
        records = log.read_log(trial_folder(tmp_path / "lr", trial.lr) / "log.jsonl")
        seen = {each["step"]: each["accuracy"] for each in records if each.get("split") == "validation"}
        assert trial.accuracy == max(seen.values()) == seen[trial.step]
        assert not any(each.get("split") == "test" for each in records)
    assert found.best == max(found.trials, key=lambda trial: trial.accuracy)
    assert isopix.search_lr(tmp_path / "pre", *words, **arguments).trials == found.trials
    with pytest.raises(ValueError, match="generative_weight=0"):
        isopix.search_lr(tmp_path / "pre", *words[:-1], **arguments)


def test_a_fine_tuning_trial_at_chance_level_has_failed(tmp_path: Path) -> None:
    words = [*SMALL, "steps=2", "generative_weight=0"]
    found = isopix.search_lr(
        "igpt.digits",
        *words,
        out=tmp_path / "lr",
        finetune=True,
        max_lr=1e-9,
        min_lr=1e-9,
        device="cpu",
    )
    assert [trial.status for trial in found.trials] == ["failed"]
    assert "not above chance level" in found.trials[0].reason


@pytest.mark.parametrize(("share", "status"), [(0.995, "failed"), (0.985, "completed")])
def test_a_trial_near_the_uniform_loss_has_failed_whatever_the_frequencies(
    tmp_path: Path, share: float, status: str
) -> None:
    """Where codes are uniform, the loss of their frequencies lies at or above that of a uniform guess."""
    recipe = registry.resolve("igpt.digits", assignments=[*SMALL, "steps=1", "num_colors=16"]).recipe
    run = train_recipe(recipe, tmp_path / "run", device=CPU, observer=RunObserver()).run
    uniform = math.log(16)
    baselines = {
        "kind": "baselines",
        "step": 0,
        "held_out": "validation",
        "nats": {"unigram": 1.01 * uniform},
    }
    run.log.write_text(json.dumps(baselines) + "\n")
    trial = LRTrial(lr=0.1, status="completed", step=1, loss=share * uniform, seconds=1.0)
    checked = check_trial(recipe, load_dataset(recipe.data), run, trial)
    assert checked.status == status
    assert ("is not below 99% of the uniform loss 2.7726" in checked.reason) == (status == "failed")


def test_a_search_without_classes_is_refused() -> None:
    recipe = registry.resolve("igpt.digits", assignments=SMALL).recipe
    tuned = prepare_finetune("igpt.digits", assignments=["generative_weight=inf"]).recipe
    assert trial_recipe(recipe).train.num_test_images == 0
    with pytest.raises(
        ValueError, match="chosen by validation accuracy, which generative_weight=inf does not"
    ):
        trial_recipe(tuned)
