"""Trainings of verbs: what is checked before any work, and the processes that share the work."""

import logging
import os
from collections.abc import Sequence
from pathlib import Path

import torch

from isopix.core import ranks
from isopix.core.device import DeviceLike, describe_devices
from isopix.core.memory import free_memory, total_memory
from isopix.core.text import count_of
from isopix.core.verb import begin_work
from isopix.data.dataset import open_source
from isopix.recipes.cost import check_memory
from isopix.recipes.recipe import Recipe
from isopix.runs.load import saved_recipe
from isopix.runs.loggers import check_loggers
from isopix.runs.pretrain import train_recipe
from isopix.runs.resume import FOLDER_LOCK, check_selects_step, finetune_and_refit, resume_run
from isopix.runs.shipped import shipped_copy
from isopix.runs.start import InitialWeights, TrainingStart
from isopix.runs.training import RunStatus
from isopix.runs.training_log import RunObserver
from isopix.storage.run_folder import RunFolder, require_new
from isopix.train.parallel import process_group

logger = logging.getLogger("isopix")


def train_in_processes(
    start: TrainingStart, out: Path, *, device: DeviceLike, loggers: Sequence[str], refit: bool = False
) -> RunStatus:
    """Train in the new folder `out`; a restarted process resumes, and a `refit` may continue."""
    if ranks.num_restarts() > 0 and RunFolder(out).has_checkpoints and not refit:
        return resume_in_processes(out, device=device, loggers=loggers)
    recipe, initial = start
    check_loggers(loggers)
    recipe.outline()  # raises ValueError for parts that do not fit together
    if refit:
        check_selects_step(recipe)
    if not (refit and (out / FOLDER_LOCK).is_file()):
        require_new(out)
    open_source(recipe.data)
    begin_work(recipe.train.check_ranks)
    if recipe.finetune and initial is None and (model := shipped_copy(Path(recipe.name))):
        text = "recipe %s is trained from scratch; to fine-tune the model, give %s"
        logger.warning(text, recipe.name, model)
    with process_group(device) as where:
        require_memory(recipe, where)

        def observer_for(trained: Recipe) -> RunObserver:
            return RunObserver(_title(trained, initial, where), loggers=loggers)

        if refit:
            return finetune_and_refit(start, out, device=where, observer_for=observer_for)
        return train_recipe(recipe, out, device=where, observer=observer_for(recipe), initial=initial)


def resume_in_processes(out: Path, *, device: DeviceLike, loggers: Sequence[str]) -> RunStatus:
    """Resume a run. Raises ValueError if there is nothing to resume or the data have changed."""
    check_loggers(loggers)
    recipe = saved_recipe(out)
    open_source(recipe.data)
    begin_work(recipe.train.check_ranks)
    with process_group(device) as where:
        recipe.train.check_ranks(ranks.num_ranks())
        return resume_run(out, device=where, observer=RunObserver(loggers=loggers))


def _title(recipe: Recipe, initial: InitialWeights | None, device: torch.device) -> str:
    train, origin = recipe.train, " from scratch" if recipe.finetune else ""
    if initial is not None:
        pretrained = initial.provenance["pretrained"]
        origin = f" from step {pretrained['step']} of {os.path.relpath(pretrained['run'])}"
    work = f"{count_of(train.steps, 'step')}, batch size {train.batch_size}, {train.optimizer.label()}"
    text = f"{recipe.name}{origin} on {recipe.data.source}, {work}, {describe_devices(device)}"
    return text if recipe.finetune is None else f"{text}; augmentation: {recipe.data.augment.label()}"


def require_memory(recipe: Recipe, device: torch.device) -> None:
    """Raise ValueError for training that cannot fit into the memory of a device; warn if it hardly fits."""
    recipe.train.check_ranks(ranks.num_ranks())
    if recipe.predicts_codes:  # the estimate is of the loss of codes, which takes more than that of classes
        total, free = total_memory(device), free_memory(device)
        if warning := check_memory(recipe, total=total, free=free, num_ranks=ranks.num_ranks()):
            logger.warning("%s", warning)
