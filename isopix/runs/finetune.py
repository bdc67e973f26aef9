"""Fine-tuning: its settings and initial weights, and a refit on training and validation images together."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import torch

from isopix.core.config import to_dict
from isopix.core.overrides import flatten, override, parse
from isopix.data.known_sources import require_known_source
from isopix.data.patch_augment import NoPatchAugment
from isopix.data.sources.base import finetune_augmentation
from isopix.finetuning.classifier import FineTuneModel
from isopix.finetuning.config import FineTuneConfig
from isopix.model.pool import default_pool
from isopix.objectives.base import PretrainModel
from isopix.recipes import registry
from isopix.recipes.recipe import NETWORK, Recipe
from isopix.recipes.registry import with_affordable_evaluation, with_palette_of_data
from isopix.runs.load import find_checkpoint, load_run, saved_recipe
from isopix.runs.pretrain import codec_provenance, train_recipe
from isopix.runs.resume import FOLDER_LOCK, SETTINGS, folder_of_runs, resume_run, train_or_resume
from isopix.runs.shipped import find_copy
from isopix.runs.start import InitialWeights, TrainingStart, changed_settings, initial_weights
from isopix.runs.state import MODEL, codec_of
from isopix.runs.training import RunStatus
from isopix.runs.training_log import RunObserver, validation_measurement
from isopix.storage.atomic import is_temporary
from isopix.storage.log import read_log
from isopix.storage.run_folder import RunFolder
from isopix.train.optim import ConstantSchedule
from isopix.train.stopping import CAUSES, best_evaluation

STEPS, EVALUATE_EVERY = 1000, 50
SOURCE = ("source", "data.source")  # how the setting is named
LR_FACTOR = 0.1  # of pre-training's learning rate; often the best (iGPT section 4.5)
FINETUNE_FIELDS = tuple(each.name for each in fields(FineTuneConfig))


def prepare_finetune(
    source: str,
    settings: Sequence[str] = (),
    *,
    file: Path | None = None,
    options: Mapping[str, Any] | None = None,
) -> TrainingStart:
    """Return how to fine-tune the run folder `source`, or the recipe of that name from scratch.

    The names of `FineTuneConfig` go without their group (`generative_weight=1`), even where other groups have
    such a setting. With another `data.size` position embeddings are interpolated. Raises ValueError if
    `source` is neither a folder nor a recipe, and for wrong settings.
    """
    folder = find_copy(Path(source))
    loaded = load_run(folder, device=torch.device("cpu")) if folder.exists() else None
    base = loaded.recipe if loaded else registry.find(source, "no run folder or recipe")
    layers = [changes for _, changes in registry.layers(file, options, settings)]
    given = [path for changes in layers for path in changes]
    images = [changes[path] for changes in layers for path in SOURCE if path in changes]
    if loaded and not images:
        require_known_source(base.data.source)
    recipe = finetune_recipe(base, str([base.data.source, *images][-1]), from_scratch=loaded is None)
    for changes in layers:
        recipe = _override(recipe, changes)
    if loaded is None:
        recipe = with_palette_of_data(recipe, given)
    else:
        for path, (own, _) in changed_settings(NETWORK, recipe, loaded.recipe).items():
            raise ValueError(
                f"{path.removesuffix('.kind')} cannot be changed: the pre-trained network has "
                f"{json.dumps(own)}; fine-tune a recipe by its name to start from scratch"
            )
    # All test images, so that runs of any length can be compared image by image.
    recipe = with_affordable_evaluation(recipe, ["num_test_images", *given])
    assert recipe.finetune is not None
    model = PretrainModel(recipe.outline(), recipe.objective)
    FineTuneModel(
        model, recipe.model.width, 2, recipe.finetune
    )  # raises ValueError for parts that do not fit
    return TrainingStart(recipe, initial_weights(source, recipe, loaded) if loaded else None)


def finetune_recipe(recipe: Recipe, source: str, *, from_scratch: bool) -> Recipe:
    """Return the fine-tuning recipe on a source of images: iGPT's (section 2.3: joint loss; section 3.4:
    constant learning rate) with all labels and test images, then its `finetune_overrides`.

    The augmentation is that of the dataset if it has one, else that of `finetune_overrides`, else that of
    pre-training. The learning rate is a tenth of pre-training's, or the recipe's own; from scratch and after
    an earlier fine-tuning it is unchanged. A class token, if there is one, is what the class head reads.
    """
    optimizer = recipe.train.optimizer
    data = replace(recipe.data, train_on_validation=False, limit=None, labels_per_class=None, subset=0)
    tuned = recipe.updated(
        data=replace(data, patch_augment=NoPatchAugment()),
        finetune=FineTuneConfig(pool=default_pool(int(recipe.model.class_token))),
        steps=STEPS,
        optimizer=optimizer.for_finetuning(_rounded(LR_FACTOR * optimizer.lr)),
        schedule=ConstantSchedule(),
        evaluate_every=EVALUATE_EVERY,
        evaluate_images=None,
        num_test_images=None,
        checkpoint_every=EVALUATE_EVERY,
    )
    tuned = _override(tuned, parse(recipe.finetune_overrides))
    augment = finetune_augmentation(source)
    if augment is not None:
        tuned = tuned.updated(data=replace(tuned.data, augment=augment))
    if from_scratch or recipe.finetune is not None:
        return tuned.updated(optimizer=replace(tuned.train.optimizer, lr=optimizer.lr))
    return tuned


def _rounded(lr: float) -> float:
    """Return 0.0003 for 0.1 * 0.003, which is 0.00030000000000000003."""
    return float(f"{lr:.12g}")


def _override(recipe: Recipe, changes: Mapping[str, Any]) -> Recipe:
    """Return the changed recipe; the names of `FineTuneConfig` go without their group."""
    return override(recipe, {_full_path(path, recipe): value for path, value in changes.items()})


def _full_path(path: str, recipe: Recipe) -> str:
    """Return the path of a fine-tuning setting; a misspelled one counts as one, for a helpful error."""
    known = any(path in each.split(".") for each in flatten(to_dict(recipe)))
    misspelled = not known and "." not in path and get_close_matches(path, FINETUNE_FIELDS)
    own = path in FINETUNE_FIELDS or misspelled
    return f"finetune.{path}" if own else path


def finetune_and_refit(
    start: TrainingStart, out: Path, *, device: torch.device, observer_for: Callable[[Recipe], RunObserver]
) -> RunStatus:
    """Fine-tune with a refit on train and validation (iGPT section 3.1); `out` becomes an ordinary run.

    A run in `out/selection`, which does not use the test images, selects the step with the best validation
    accuracy; then the run itself starts from the same weights and trains for that many steps on train and
    validation, and is tested once. After an interruption at any moment the same call continues; the status
    returned is unfinished if a run was asked to stop. Raises ValueError for settings without a selection, or
    other than those that `out` was started with; RuntimeError if no step is better than step 0.
    """
    check_selects_step(start.recipe)
    run, selecting = RunFolder(out), start.recipe.updated(num_test_images=0)
    settings = start._replace(recipe=selecting).settings()
    with folder_of_runs(out, settings, "fine-tuning with a refit"):
        if run.has_checkpoints:
            return resume_run(out, device=device, observer=observer_for(saved_recipe(out)))
        observer, initial = observer_for(selecting), start.again()
        status = train_or_resume(selecting, run.selection, device=device, observer=observer, initial=initial)
        if not status.finished:
            return status
        initial = _selected_weights(start, RunFolder(run.selection))
        recipe = refit_recipe(start.recipe, initial.provenance["selected"]["step"])
        left = {path.name for path in out.iterdir() if is_temporary(path)}  # by a process that was killed
        allowed = {run.selection.name, FOLDER_LOCK, SETTINGS, *left}
        observer = observer_for(recipe)
        return train_recipe(recipe, out, device=device, observer=observer, initial=initial, allowed=allowed)


def check_selects_step(recipe: Recipe) -> None:
    """Raises ValueError for settings under which validation selects no step, or cannot be trained on."""
    why, data = "", recipe.data
    if data.train_on_validation:
        why = "selects a step on validation images, and data.train_on_validation=true leaves none"
    elif data.labels_per_class is not None:
        why = f"trains on all labels, and data.labels_per_class={data.labels_per_class} on a subset"
    elif recipe.finetune is None or not recipe.finetune.early_stops:
        why = "selects a step by accuracy, and patience=null or generative_weight=inf selects none"
    if why:
        raise ValueError(f"--refit-on-validation {why}; give one of the two")


def refit_recipe(recipe: Recipe, steps: int) -> Recipe:
    """Return the recipe of the run on train and validation, which has nothing left to select."""
    finetune = replace(recipe.finetune or FineTuneConfig(), patience=None)
    data = replace(recipe.data, train_on_validation=True)
    return recipe.updated(data=data, finetune=finetune, steps=steps, probe_every=0)


def _selected_weights(start: TrainingStart, selection: RunFolder) -> InitialWeights:
    """Return the weights that a finished selection started from, with the palette fitted to training images
    only, and the record of the step that it selected. Raises RuntimeError for step 0.
    """
    records, run = read_log(selection.log), selection.path.resolve()
    best = best_evaluation(records)
    assert best is not None, "the run was checked to have validation images"
    step, accuracy = best["step"], best["accuracy"]
    if step == 0:
        raise RuntimeError(
            f"no step has a better validation accuracy than step 0 ({accuracy:.1%}, see {selection.path}), "
            f"so that there is nothing to refit and nothing was tested; likely causes: {CAUSES}"
        )
    text = (
        f"step {step} selected on validation, accuracy {accuracy:.1%} ({run}); this run trains on train and "
        "validation for that many steps"
    )
    record = {"step": step, "validation_accuracy": accuracy, "run": str(run)}
    provenance = {"selected": {**record, "measurement": validation_measurement(records)}}
    if start.initial:
        return start.initial._replace(provenance=start.initial.provenance | provenance, notes=(text,))
    codec = codec_of(find_checkpoint(run, (MODEL,))[0])
    return InitialWeights(start.recipe.build(codec), codec_provenance(start.recipe) | provenance, (text,))
