"""Train from Python: pretrain, resume, search_lr and finetune."""

import os
from collections.abc import Sequence
from pathlib import Path

import torch

from isopix.api.arguments import PathLike, checked
from isopix.api.starts import (
    LEARNING_RATE,
    check_new_run,
    finetune_start,
    pretrain_start,
    search_start,
)
from isopix.core import device as devices
from isopix.core import ranks
from isopix.core.device import DeviceLike, describe_devices
from isopix.core.memory import free_memory, total_memory
from isopix.core.overrides import override
from isopix.core.signals import Interrupted
from isopix.core.text import count_of
from isopix.pretrained.run import Run, finished, logger, run_folder
from isopix.recipes.cost import check_memory
from isopix.recipes.recipe import Recipe
from isopix.runs.load import saved_recipe
from isopix.runs.lr_search import run_lr_search
from isopix.runs.metric_loggers import check_loggers
from isopix.runs.observer import RunObserver
from isopix.runs.pretrain import InitialWeights, train_recipe
from isopix.runs.refit import finetune_and_refit
from isopix.runs.resume import resume_run
from isopix.runs.shipped import shipped_copy
from isopix.storage.run_folder import RunFolder
from isopix.train.lr_search import LRSearch, lr_grid
from isopix.train.parallel import process_group
from isopix.train.trainer import Record


@checked
def pretrain(
    recipe: str | Recipe | None = None,
    *,
    weights: Run | PathLike | None = None,
    data: PathLike | None = None,
    out: PathLike,
    overrides: Sequence[str] = (),
    file: PathLike | None = None,
    palette: PathLike | None = None,
    limit: int | None = None,
    seed: int | None = None,
    probe_every: int | None = None,
    device: DeviceLike = "auto",
    loggers: Sequence[str] = (),
) -> Run:
    """Pre-train a recipe on images, into the new run folder `out`.

    With `weights`, training starts from those of a run or checkpoint folder, with its codec and a new
    optimizer; the recipe, by default that of the run, must have the same network. `overrides` are settings as
    `path=value`, which override the arguments and those in `file`. Metrics also go to the `loggers`:
    "tensorboard", "wandb", "trackio".
    Raises ValueError for wrong settings, data or folders, before training; RuntimeError if the disk is full
    or the loss is not finite; Interrupted if asked to stop, after saving.
    """
    check_loggers(loggers)
    start = pretrain_start(
        recipe,
        weights=weights,
        data=data,
        overrides=overrides,
        file=file,
        palette=palette,
        limit=limit,
        seed=seed,
        probe_every=probe_every,
    )
    if _is_restarted(out):
        return resume(out, device=device, loggers=loggers)
    with process_group(device) as where:
        resolved, initial = start
        check_new_run(resolved, out)
        _check_memory(resolved, where)
        text = f"{resolved.name}{_origin(weights, initial)} on {_work(resolved)}, {describe_devices(where)}"
        watch = RunObserver(text, loggers=loggers)
        status = train_recipe(resolved, Path(out), device=where, observer=watch, initial=initial)
        return finished(status, device)


@checked
def resume(
    run: Run | PathLike,
    *,
    device: DeviceLike = "auto",
    loggers: Sequence[str] = (),
) -> Run:
    """Resume an interrupted run from its last checkpoint; bit-exact on the same CPU, threads and versions.

    Raises ValueError if there is nothing to resume or the data have changed, and what `pretrain` raises.
    """
    check_loggers(loggers)
    folder = run_folder(run)
    recipe = saved_recipe(folder.path)
    with process_group(device) as where:
        recipe.train.check_ranks(ranks.num_ranks())

        return finished(resume_run(folder.path, device=where, observer=RunObserver(loggers=loggers)), device)


@checked
def search_lr(
    source: str | Recipe | Run | PathLike,
    *,
    data: PathLike | None = None,
    out: PathLike,
    overrides: Sequence[str] = (),
    file: PathLike | None = None,
    palette: PathLike | None = None,
    limit: int | None = None,
    seed: int | None = None,
    finetune: bool = False,
    max_lr: float = 0.01,
    min_lr: float = 0.00001,
    device: DeviceLike = "auto",
) -> LRSearch:
    """Search for a learning rate over a decreasing grid, 0.01, 0.003, 0.001 ..., in the folder `out`.

    Each trial is a run. The search ends after the first trial whose final validation loss is higher than that
    of the one before; called again, it resumes. The `best` trial has the lowest loss, and is None if all
    diverged or failed to learn. A run folder as `source` is fine-tuned, and with `finetune` a recipe is
    trained from scratch on labels; then the highest validation accuracy is best (iGPT section 4.5). Raises
    ValueError for wrong settings and other folders, Interrupted if asked to stop.
    """
    start = search_start(
        source,
        data=data,
        overrides=overrides,
        file=file,
        palette=palette,
        limit=limit,
        seed=seed,
        finetune=finetune,
    )
    resolved = start().recipe
    rates, where = lr_grid(max_lr, min_lr), devices.select_device(device)
    _check_memory(resolved, where)

    def observer_for(lr: float) -> RunObserver:
        at_lr = override(resolved, {LEARNING_RATE: lr})
        train = at_lr.train
        text = f"{at_lr.name}, lr {lr}, {count_of(train.steps, 'step')}, batch size {train.batch_size}"
        return RunObserver(text)

    result = run_lr_search(start, Path(out), rates, device=where, observer_for=observer_for)
    if not result.finished:
        raise Interrupted(f"stopped and saved: {out}", result)
    return result


@checked
def finetune(
    source: Run | PathLike,
    *,
    data: PathLike | None = None,
    out: PathLike,
    overrides: Sequence[str] = (),
    file: PathLike | None = None,
    limit: int | None = None,
    labels: int | str | None = None,
    subset: int | None = None,
    refit_on_validation: bool = False,
    seed: int | None = None,
    device: DeviceLike = "auto",
    loggers: Sequence[str] = (),
) -> Run:
    """Fine-tune a run to classify labeled images, or train the recipe of that name from scratch.

    The weights with the best validation accuracy are evaluated on the test images. `labels` keeps that many
    training images of each class, or a fraction as in `10%`, of the random subset number `subset`. With
    `refit_on_validation` the number of steps is chosen on the validation images, then training is repeated on
    train + validation. Raises what `pretrain` raises.
    """
    check_loggers(loggers)
    prepare = finetune_start(
        source,
        data=data,
        overrides=overrides,
        file=file,
        limit=limit,
        labels=labels,
        subset=subset,
        seed=seed,
    )
    if _is_restarted(out) and not refit_on_validation:
        return resume(out, device=device, loggers=loggers)
    recipe, initial = prepare()
    weights = _origin(source, initial) or " from scratch"
    with process_group(device) as where:
        _check_memory(recipe, where)

        def observer_for(trained: Recipe) -> RunObserver:
            text = f"{trained.name}{weights} on {_work(trained)}, {describe_devices(where)}"
            text += f"; augmentation: {trained.data.augment.label()}"
            watch = RunObserver(text, loggers=loggers)
            return _warned(watch, os.fspath(source)) if initial is None else watch

        if refit_on_validation:
            status = finetune_and_refit(prepare, Path(out), device=where, observer_for=observer_for)
        else:
            check_new_run(recipe, out)
            status = train_recipe(
                recipe, Path(out), device=where, observer=observer_for(recipe), initial=initial
            )
        return finished(status, device)


def _warned(watch: RunObserver, recipe: str) -> RunObserver:
    """Return an observer that, before its first record, warns if a trained model has the recipe's name."""
    text = "recipe %s is trained from scratch; to fine-tune the model, give %s"
    models = [model] if (model := shipped_copy(Path(recipe))) else []

    def record(values: Record) -> None:
        if models:
            logger.warning(text, recipe, models.pop())
        watch.record(values)

    return watch._replace(record=record)


def _is_restarted(out: PathLike) -> bool:
    """Whether torchrun or SLURM has started this command again, and the run can be resumed."""
    return ranks.num_restarts() > 0 and RunFolder(Path(out)).has_checkpoints


def _origin(source: Run | PathLike | None, initial: InitialWeights | None) -> str:
    """Return where the initial weights are from; empty for untrained ones."""
    if source is None or initial is None:
        return ""
    return f" from step {initial.provenance['pretrained']['step']} of {os.fspath(source)}"


def _check_memory(recipe: Recipe, device: torch.device) -> None:
    """Raise ValueError for training that cannot fit into the memory of a device; warn if it hardly fits."""
    recipe.train.check_ranks(ranks.num_ranks())
    if recipe.predicts_codes:  # the estimate is of the loss of codes, which takes more than that of classes
        total, free = total_memory(device), free_memory(device)
        if warning := check_memory(recipe, total=total, free=free, num_ranks=ranks.num_ranks()):
            logger.warning("%s", warning)


def _work(recipe: Recipe) -> str:
    train = recipe.train
    steps = count_of(train.steps, "step")
    return f"{recipe.data.source}, {steps}, batch size {train.batch_size}, {train.optimizer.label()}"
