"""Refitting: select the number of steps on validation, then fine-tune on train and validation together."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch

from isopix.core.config import to_dict
from isopix.finetuning.config import FineTuneConfig
from isopix.recipes.recipe import Recipe
from isopix.runs.checkpoint_content import codec_of, recipe_of
from isopix.runs.load import WEIGHTS, find_checkpoint
from isopix.runs.measurements import validation_measurement
from isopix.runs.observer import RunObserver, RunStatus
from isopix.runs.pretrain import (
    InitialWeights,
    TrainingStart,
    check_same_settings,
    train_recipe,
    with_absolute_paths,
)
from isopix.runs.resume import resume_run, train_or_resume
from isopix.storage import log
from isopix.storage.lock import exclusive_lock
from isopix.storage.record_types import read_environment
from isopix.storage.run_folder import RunFolder, require_new
from isopix.train.early_stopping import CAUSES, best_evaluation

LOCK = "refit.lock"  # of the folder; each of the two runs has a lock of its own

Prepare = Callable[[], TrainingStart]  # called for each run, as training changes the weights
ObserverFactory = Callable[[Recipe], AbstractContextManager[RunObserver]]


class SelectedStep(NamedTuple):
    """The step with the best validation accuracy, and the measurement record of that accuracy."""

    step: int
    accuracy: float
    run: Path
    measurement: Mapping[str, Any]


def finetune_and_refit(
    prepare: Prepare, out: Path, *, device: torch.device, observer_for: ObserverFactory
) -> RunStatus:
    """Fine-tune with a refit on train and validation (iGPT section 3.1); `out` becomes an ordinary run.

    A run in `out/selection`, which does not use the test images, selects the step with the best validation
    accuracy; then the run itself starts from the same weights and trains for that many steps on train and
    validation, and is tested once. After an interruption at any moment the same call continues; the status
    returned is unfinished if a run was asked to stop. Raises ValueError for settings without a selection, or
    other than those that `out` was started with; RuntimeError if no step is better than step 0.
    """
    start = prepare()
    check_selects_step(start.recipe)
    run = RunFolder(out)
    with _exclusive(run):
        if run.has_checkpoints:
            _check_same_start(run, start)
            with observer_for(recipe_of(find_checkpoint(out, ())[0])) as observer:
                return resume_run(out, device=device, observer=observer)
        status = _select(run, start, device, observer_for)
        if not status.finished:
            return status
        selected = selected_step(run)
        start = prepare()
        recipe, initial = refit_recipe(start.recipe, selected.step), _initial_weights(start, selected)
        with observer_for(recipe) as observer:
            return train_recipe(
                recipe, out, device=device, observer=observer, initial=initial, allowed=_allowed_names(run)
            )


def check_selects_step(recipe: Recipe) -> None:
    """Raises ValueError for settings under which validation selects no step, or cannot be trained on."""
    if recipe.data.train_on_validation:
        raise ValueError(
            "--refit-on-validation selects a step on validation images, and data.train_on_validation=true "
            "leaves none; give one of the two"
        )
    if recipe.data.labels_per_class is not None:
        raise ValueError(
            "--refit-on-validation trains on all labels, and data.labels_per_class="
            f"{recipe.data.labels_per_class} on a subset; give one of the two"
        )
    if recipe.finetune is None or not recipe.finetune.early_stops:
        raise ValueError(
            "--refit-on-validation selects a step by validation accuracy; patience=null and "
            "generative_weight=inf select none"
        )


def refit_recipe(recipe: Recipe, steps: int) -> Recipe:
    """Return the recipe of the run on train and validation, which has nothing left to select."""
    finetune = replace(recipe.finetune or FineTuneConfig(), patience=None)
    data = replace(recipe.data, train_on_validation=True)
    return recipe.updated(data=data, finetune=finetune, steps=steps, probe_every=0)


def selected_step(run: RunFolder) -> SelectedStep:
    """Return what the finished run in `selection` selected. Raises RuntimeError for step 0."""
    selection = RunFolder(run.selection)
    records = log.read_log(selection.log)
    best = best_evaluation(records)
    assert best is not None, "the run was checked to have validation images"
    if best["step"] == 0:
        raise RuntimeError(
            f"no step has a better validation accuracy than step 0 ({best['accuracy']:.1%}, see "
            f"{selection.path}), so that there is nothing to refit and nothing was tested; likely causes: "
            f"{CAUSES}"
        )
    measurement = validation_measurement(records)
    return SelectedStep(best["step"], best["accuracy"], selection.path.resolve(), measurement)


def _select(
    run: RunFolder, start: TrainingStart, device: torch.device, observer_for: ObserverFactory
) -> RunStatus:
    if RunFolder(run.selection).has_checkpoints:
        _check_same_start(run, start)
    recipe = start.recipe.updated(num_test_images=0)
    with observer_for(recipe) as observer:
        return train_or_resume(recipe, run.selection, device=device, observer=observer, initial=start.initial)


def _initial_weights(start: TrainingStart, selected: SelectedStep) -> InitialWeights:
    """Return the weights that the selection started from, with the palette fitted to training images only."""
    text = (
        f"step {selected.step} selected on validation, accuracy {selected.accuracy:.1%} ({selected.run}); "
        "this run trains on train and validation for that many steps"
    )
    record = {"step": selected.step, "validation_accuracy": selected.accuracy, "run": str(selected.run)}
    record |= {"measurement": selected.measurement}
    if start.initial:
        provenance = start.initial.provenance | {"selected": record}
        return start.initial._replace(provenance=provenance, notes=(text,))
    codec = codec_of(find_checkpoint(selected.run, WEIGHTS)[0])
    provenance = start.recipe.model.codec.provenance() | {"selected": record}
    return InitialWeights(start.recipe.build(codec), provenance, (text,))


def _check_same_start(run: RunFolder, start: TrainingStart) -> None:
    """Raises ValueError unless the selection was made with these settings, from these weights."""
    selection = RunFolder(run.selection)
    if not selection.has_checkpoints:
        raise ValueError(
            f"the run in {run.path} was not started with --refit-on-validation; choose another --out"
        )
    source = "pretrained"
    saved = to_dict(recipe_of(find_checkpoint(selection.path, ())[0])) | {
        source: read_environment(selection.environment).get(source)
    }
    given = to_dict(with_absolute_paths(start.recipe.updated(num_test_images=0))) | {
        source: start.initial.provenance.get(source) if start.initial else None
    }
    check_same_settings(f"the run in {selection.path}", saved, given)


def _allowed_names(run: RunFolder) -> set[str]:
    """Return the files that may be in the folder before the run itself starts; hidden ones are temporary."""
    hidden = (path.name for path in run.path.iterdir() if path.name.startswith("."))
    return {run.selection.name, LOCK, *hidden}


@contextmanager
def _exclusive(run: RunFolder) -> Iterator[None]:
    """Lock the folder for this process. Raises ValueError if something else is in it."""
    if not (run.path / LOCK).is_file():
        require_new(run.path)
        run.path.mkdir(parents=True, exist_ok=True)
    with exclusive_lock(run.path, "folder", name=LOCK):
        try:
            yield
        finally:
            if not run.has_checkpoints and not run.selection.exists():  # so that a corrected command works
                (run.path / LOCK).unlink()
                with suppress(OSError):
                    run.path.rmdir()
