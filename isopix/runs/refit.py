"""Refitting: select the number of steps on validation, then fine-tune on train and validation together."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch

from isopix.core.config import to_dict
from isopix.finetuning.config import FineTuneConfig
from isopix.recipes.recipe import Recipe
from isopix.runs.load import find_checkpoint, saved_recipe
from isopix.runs.measurements import validation_measurement
from isopix.runs.observer import RunObserver, RunStatus
from isopix.runs.pretrain import (
    InitialWeights,
    TrainingStart,
    codec_provenance,
    train_recipe,
    with_absolute_paths,
)
from isopix.runs.resume import FOLDER_LOCK, SETTINGS, folder_of_runs, resume_run, train_or_resume
from isopix.runs.state import MODEL, codec_of
from isopix.storage.atomic import is_temporary
from isopix.storage.log import read_log
from isopix.storage.run_folder import RunFolder
from isopix.train.stopping import CAUSES, best_evaluation

Prepare = Callable[[], TrainingStart]  # called for each run, as training changes the weights


class SelectedStep(NamedTuple):
    """The step with the best validation accuracy, and the measurement record of that accuracy."""

    step: int
    accuracy: float
    run: Path
    measurement: Mapping[str, Any]


def finetune_and_refit(
    prepare: Prepare, out: Path, *, device: torch.device, observer_for: Callable[[Recipe], RunObserver]
) -> RunStatus:
    """Fine-tune with a refit on train and validation (iGPT section 3.1); `out` becomes an ordinary run.

    A run in `out/selection`, which does not use the test images, selects the step with the best validation
    accuracy; then the run itself starts from the same weights and trains for that many steps on train and
    validation, and is tested once. After an interruption at any moment the same call continues; the status
    returned is unfinished if a run was asked to stop. Raises ValueError for settings without a selection, or
    other than those that `out` was started with; RuntimeError if no step is better than step 0.
    """
    recipe, initial = prepare()
    check_selects_step(recipe)
    run, selecting = RunFolder(out), recipe.updated(num_test_images=0)
    with folder_of_runs(out, start_settings(TrainingStart(selecting, initial)), "fine-tuning with a refit"):
        if run.has_checkpoints:
            return resume_run(out, device=device, observer=observer_for(saved_recipe(out)))
        status = train_or_resume(
            selecting, run.selection, device=device, observer=observer_for(selecting), initial=initial
        )
        if not status.finished:
            return status
        selected = selected_step(run)
        recipe, initial = prepare()
        refitted = refit_recipe(recipe, selected.step)
        return train_recipe(
            refitted,
            out,
            device=device,
            observer=observer_for(refitted),
            initial=_initial_weights(TrainingStart(recipe, initial), selected),
            allowed={run.selection.name, FOLDER_LOCK, SETTINGS, *_temporary(out)},
        )


def _temporary(folder: Path) -> list[str]:
    """Return the names of files that a killed process has left."""
    return [path.name for path in folder.iterdir() if is_temporary(path)]


def start_settings(start: TrainingStart) -> dict[str, Any]:
    """Return the settings and the initial weights of a training, to compare with those of another time."""
    settings = to_dict(with_absolute_paths(start.recipe))
    return settings | {"pretrained": start.initial.provenance.get("pretrained") if start.initial else None}


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
    records = read_log(selection.log)
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


def _initial_weights(start: TrainingStart, selected: SelectedStep) -> InitialWeights:
    """Return the weights that the selection started from, with the palette fitted to training images only."""
    text = (
        f"step {selected.step} selected on validation, accuracy {selected.accuracy:.1%} ({selected.run}); "
        "this run trains on train and validation for that many steps"
    )
    record = {"step": selected.step, "validation_accuracy": selected.accuracy, "run": str(selected.run)}
    provenance = {"selected": record | {"measurement": selected.measurement}}
    if start.initial:
        return start.initial._replace(provenance=start.initial.provenance | provenance, notes=(text,))
    codec = codec_of(find_checkpoint(selected.run, (MODEL,))[0])
    return InitialWeights(start.recipe.build(codec), codec_provenance(start.recipe) | provenance, (text,))
