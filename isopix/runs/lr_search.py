"""Learning-rate search of pre-training or fine-tuning in a folder; each trial is a run folder of its own."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from isopix.core.config import from_dict, to_dict
from isopix.data.dataset import load_dataset
from isopix.finetuning.config import FineTuneConfig
from isopix.recipes.recipe import Recipe
from isopix.runs.divergence_monitor import DivergenceMonitor
from isopix.runs.measurements import validation_measurement
from isopix.runs.observer import RunObserver
from isopix.runs.pretrain import (
    InitialWeights,
    check_data,
    check_same_settings,
    require_validation,
    with_absolute_paths,
)
from isopix.runs.resume import train_or_resume
from isopix.runs.trial_baseline import check_trial
from isopix.storage.atomic import write_json
from isopix.storage.lock import LOCK_FILE, exclusive_lock
from isopix.storage.log import read_log
from isopix.storage.record_types import Types, read_record
from isopix.storage.run_folder import RunFolder
from isopix.train.divergence import DivergedError
from isopix.train.early_stopping import best_evaluation, has_val_accuracy
from isopix.train.lr_search import LRSearch, LRTrial, TrialStatus, continue_search
from isopix.train.train_step import NonFiniteError

FILE = "lr_search.json"
SAVED: Types = {"settings": dict[str, Any], "lrs": list[float], "trials": list[Any]}

ObserverFactory = Callable[[float], AbstractContextManager[RunObserver]]
Initialize = Callable[[], InitialWeights | None]  # called for each trial, as training changes the weights


def _from_scratch() -> None:
    """Return no initial weights."""


def trial_recipe(recipe: Recipe) -> Recipe:
    """Return the recipe of trials: without test images, which may not select anything.

    Raises ValueError if there are no validation images, and for fine-tuning without classes.
    """
    if recipe.finetune is not None and not recipe.finetune.has_class_loss:
        raise ValueError(
            "a learning rate of fine-tuning is chosen by validation accuracy, which generative_weight=inf "
            "does not have"
        )
    require_validation(recipe, load_dataset(recipe.data), "a learning rate")
    return recipe.updated(num_test_images=0)


def run_lr_search(
    recipe: Recipe,
    out: Path,
    lrs: tuple[float, ...],
    *,
    device: torch.device,
    observer_for: ObserverFactory,
    initialize: Initialize = _from_scratch,
) -> LRSearch:
    """Search for the learning rate of a recipe in `out`, or continue the search there; unfinished if a trial
    was asked to stop. Trials start from the weights that `initialize` returns, or from scratch.

    Those of pre-training are compared by their final validation loss, those of fine-tuning by the validation
    accuracy of the weights that are kept; see `check_trial` for trials that learn nothing.

    After an interruption at any moment the same call continues. A search that reached its smallest learning
    rate continues if `lrs` has smaller ones. Raises ValueError for a folder with anything else, a search with
    other settings, or in use, and what `trial_recipe` and `train_or_resume` raise.
    """
    recipe = trial_recipe(recipe)
    start = initialize()
    settings = shared_settings(recipe) | {"pretrained": start.provenance.get("pretrained") if start else None}
    data = load_dataset(recipe.data)
    check_data(recipe, data)
    _create(out)
    with exclusive_lock(out, "folder"):
        search = LRSearch(lrs, _saved_trials(out, settings, lrs))
        _save(out, search, settings)

        def run_trial(lr: float) -> LRTrial | None:
            folder = trial_folder(out, lr)
            with observer_for(lr) as observer:
                trial = train_at_lr(
                    recipe, lr, folder, device=device, observer=observer, initial=initialize()
                )
            return trial and check_trial(recipe, data, RunFolder(folder), trial)

        try:
            for each in continue_search(search, run_trial):
                search = each
                _save(out, search, settings)
        except ValueError:
            if not any(out.glob("lr-*")):  # so that a corrected command works
                (out / FILE).unlink()
            raise
        return search


def train_at_lr(
    recipe: Recipe,
    lr: float,
    folder: Path,
    *,
    device: torch.device,
    observer: RunObserver,
    initial: InitialWeights | None = None,
) -> LRTrial | None:
    """Train one trial from its start or last checkpoint until it ends or diverges; None if asked to stop."""
    run = RunFolder(folder)
    monitor = DivergenceMonitor(run, observer, recipe.train.steps)
    if run.has_checkpoints:
        monitor.replay()
    if monitor.diverged_at is not None:
        return _trial(run, lr, "diverged", monitor.diverged_at)
    at_lr = recipe.updated(optimizer=replace(recipe.train.optimizer, lr=lr))
    try:
        status = train_or_resume(at_lr, folder, device=device, observer=monitor.observer, initial=initial)
    except NonFiniteError as error:
        return _trial(run, lr, "non-finite", error.step)
    except DivergedError as error:
        return _trial(run, lr, "diverged", monitor.diverged_at or error.step)
    if monitor.diverged_at is not None:
        return _trial(run, lr, "diverged", monitor.diverged_at)
    if not status.finished:
        return None
    settings = recipe.finetune
    return _trial(run, lr, "completed", status.step) if settings is None else _tuned(run, lr, settings)


def shared_settings(recipe: Recipe) -> dict[str, Any]:
    """Return the settings that all trials of a recipe share: all but the learning rate."""
    settings = to_dict(with_absolute_paths(recipe))
    del settings["train"]["optimizer"]["lr"]
    return settings


def trial_folder(out: Path, lr: float) -> Path:
    """Return the run folder of a learning rate."""
    return out / f"lr-{lr}"


def _trial(run: RunFolder, lr: float, status: TrialStatus, step: int) -> LRTrial:
    """Return the trial with the final loss and the time of its log."""
    records = read_log(run.log)
    losses = {
        record["step"]: record["loss_nats"]
        for record in records
        if record.get("split") == "validation" and "loss_nats" in record
    }
    seconds = max((record.get("seconds", 0.0) for record in records), default=0.0)
    return LRTrial(lr, status, step, losses.get(step) if status == "completed" else None, seconds)


def _tuned(run: RunFolder, lr: float, settings: FineTuneConfig) -> LRTrial:
    """Return the trial with the validation accuracy of the weights that are kept, and their step."""
    evaluations = list(filter(has_val_accuracy, read_log(run.log)))
    kept = best_evaluation(evaluations) if settings.early_stops else evaluations[-1]
    assert kept is not None, "the run was checked to have validation images"
    trial = _trial(run, lr, "completed", kept["step"])
    return replace(trial, loss=None, accuracy=kept["accuracy"])


def check_search_folder(out: Path) -> None:
    """Raise ValueError if anything but a search is in a folder."""
    if not out.is_dir() or (out / FILE).is_file():
        return
    if any(path.name != LOCK_FILE and path.name[0] != "." for path in out.iterdir()):
        raise ValueError(f"folder {out} is not empty and has no learning-rate search; choose another --out")


def _create(out: Path) -> None:
    """Create the folder. Raises ValueError if anything but a search is there."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except (NotADirectoryError, FileExistsError):
        raise ValueError(f"folder {out} cannot be created: part of its path is a file") from None
    check_search_folder(out)


def _saved_trials(out: Path, settings: Mapping[str, Any], lrs: tuple[float, ...]) -> tuple[LRTrial, ...]:
    """Return the trials of the search in the folder, if there is one. Raises ValueError if it is another."""
    if not (out / FILE).is_file():
        return ()
    saved = read_record(out / FILE, SAVED, *SAVED)
    check_same_settings(f"the learning-rate search in {out}", saved.pop("settings"), settings)
    trials = from_dict(LRSearch, {name: saved[name] for name in ("lrs", "trials")}).trials
    tried = tuple(trial.lr for trial in trials)
    if tried != lrs[: len(tried)]:
        raise ValueError(f"the learning-rate search in {out} has tried {_listed(tried)}, not {_listed(lrs)}")
    return trials


def _listed(lrs: tuple[float, ...]) -> str:
    return ", ".join(map(str, lrs))


def _save(out: Path, search: LRSearch, settings: Mapping[str, Any]) -> None:
    best = None if search.best is None else search.best.lr
    state = {"kind": "lr_search", "best_lr": best, "finished": search.finished}
    values = {**state, **to_dict(search), "settings": settings, **_measurement(out, search)}
    write_json(out / FILE, values)


def _measurement(out: Path, search: LRSearch) -> dict[str, Any]:
    """Return the measurement record of the losses or accuracies, those of all trials; empty without any."""
    if not search.trials:
        return {}
    record = validation_measurement(read_log(RunFolder(trial_folder(out, search.trials[0].lr)).log))
    selection = f"learning rate chosen on {record['images']:,} validation images"
    return {"measurement": {**record, "selection": selection}}
