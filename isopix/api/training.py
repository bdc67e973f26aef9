"""Train from Python: pretrain, resume, search_lr and finetune."""

import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import torch

from isopix.api.arguments import checked
from isopix.api.run import (
    Interrupted,
    Run,
    TrainingProgress,
    finished,
    logger,
    observer,
    run_folder,
    shared_overrides,
)
from isopix.core import device as devices
from isopix.core import ranks
from isopix.core.config import to_dict
from isopix.core.overrides import override, parse, resolve_setting
from isopix.data.dataset import open_source
from isopix.data.known_sources import require_known_source
from isopix.recipes import registry
from isopix.recipes.cost import check_memory
from isopix.recipes.recipe import Recipe
from isopix.runs.checkpoint_content import recipe_of
from isopix.runs.finetune import FineTuneStart, prepare_finetune
from isopix.runs.load import find_checkpoint
from isopix.runs.lr_search import run_lr_search
from isopix.runs.metric_loggers import check_loggers
from isopix.runs.pretrain import train_recipe
from isopix.runs.refit import finetune_and_refit
from isopix.runs.resume import resume_run
from isopix.runs.training import RunObserver
from isopix.storage.checkpoint import Checkpoint
from isopix.storage.run_folder import RunFolder, require_new
from isopix.train.lr_search import LRSearch, lr_grid
from isopix.train.parallel import process_group

LEARNING_RATE = "train.optimizer.lr"

PathLike = str | os.PathLike[str]


@checked
def pretrain(
    recipe: str | Recipe,
    *,
    data: PathLike | None = None,
    out: PathLike,
    overrides: Sequence[str] = (),
    file: PathLike | None = None,
    palette: PathLike | None = None,
    limit: int | None = None,
    seed: int | None = None,
    probe_every: int | None = None,
    device: str = "auto",
    loggers: Sequence[str] = (),
    progress: TrainingProgress | None = None,
) -> Run:
    """Pre-train a recipe on images, into the new run folder `out`.

    `overrides` are settings as `path=value`, which win over the arguments and over those in `file`. Metrics
    also go to the `loggers`: "tensorboard", "wandb", "trackio". `progress` is called with the recipe and
    every record of the log. Raises ValueError for wrong settings, data or folders, before training;
    RuntimeError if the disk is full or the loss is not finite; Interrupted if asked to stop, after saving.
    """
    check_loggers(loggers)
    options = {
        **shared_overrides(data=data, limit=limit, seed=seed, palette=palette),
        "probe_every": probe_every,
    }
    resolved = resolve_recipe(recipe, file=file, options=options, overrides=overrides)
    if _is_restarted(out):
        return resume(out, device=device, loggers=loggers, progress=progress)
    with process_group(device) as where:
        _check_paths(resolved, out)
        _check_memory(resolved, where)
        text = f"{resolved.name} on {_work(resolved)}, {_devices(where)}"
        watch = observer(resolved, text, progress, loggers=loggers)
        return finished(train_recipe(resolved, Path(out), device=where, observer=watch), device)


@checked
def resume(
    run: Run | PathLike,
    *,
    device: str = "auto",
    loggers: Sequence[str] = (),
    progress: TrainingProgress | None = None,
) -> Run:
    """Resume an interrupted run from its last checkpoint; bit-exact on the same CPU, threads and versions.

    Raises ValueError if there is nothing to resume or the data have changed, and what `pretrain` raises.
    """
    check_loggers(loggers)
    folder = run_folder(run)
    recipe = recipe_of(find_checkpoint(folder.path, ())[0])
    with process_group(device) as where:
        recipe.train.check_ranks(ranks.num_ranks())

        def started(found: Checkpoint) -> None:
            step, steps = found.records["state"]["step"], recipe.train.steps
            text = f"{recipe.name}, from step {step} of {steps}, {_devices(where)}"
            observer(recipe, text, progress)

        watch = RunObserver(loggers=loggers)
        if progress is not None:
            watch = watch._replace(record=partial(progress, recipe))
        return finished(resume_run(folder.path, device=where, observer=watch, started=started), device)


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
    device: str = "auto",
    progress: TrainingProgress | None = None,
) -> LRSearch:
    """Search for a learning rate over a decreasing grid, 0.01, 0.003, 0.001 ..., in the folder `out`.

    Each trial is a run. The search ends after the first trial whose final validation loss is higher than that
    of the one before; called again, it resumes. The `best` trial has the lowest loss, and is None if all
    diverged or failed to learn. A run folder as `source` is fine-tuned, and with `finetune` a recipe is
    trained from scratch on labels; then the highest validation accuracy is best (iGPT section 4.5). Raises
    ValueError for wrong settings and other folders, Interrupted if asked to stop.
    """
    options = shared_overrides(data=data, limit=limit, seed=seed, palette=palette)
    start = _search_start(source, finetune, file=file, options=options, overrides=overrides)
    resolved = start().recipe
    values = to_dict(resolved)
    if any(resolve_setting(values, path) == LEARNING_RATE for path in registry.full_names(parse(overrides))):
        raise ValueError(f"{LEARNING_RATE} is what the search varies; set max_lr and min_lr instead")
    rates, where = lr_grid(max_lr, min_lr), devices.select_device(device)
    _check_memory(resolved, where)

    def observer_for(lr: float) -> AbstractContextManager[RunObserver]:
        at_lr = override(resolved, {LEARNING_RATE: lr})
        train = at_lr.train
        text = f"{at_lr.name}, lr {lr}, {train.steps} steps, batch size {train.batch_size}"
        return nullcontext(observer(at_lr, text, progress))

    result = run_lr_search(
        resolved,
        Path(out),
        rates,
        device=where,
        observer_for=observer_for,
        initialize=lambda: start().initial,
    )
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
    device: str = "auto",
    loggers: Sequence[str] = (),
    progress: TrainingProgress | None = None,
) -> Run:
    """Fine-tune a run to classify labeled images, or train the recipe of that name from scratch.

    The weights with the best validation accuracy are evaluated on the test images. `labels` keeps that many
    training images of each class, or a fraction as in `10%`, of the random subset number `subset`. With
    `refit_on_validation` the number of steps is chosen on the validation images, then training is repeated on
    train + validation. Raises what `pretrain` raises.
    """
    check_loggers(loggers)
    name, shared = os.fspath(source), shared_overrides(data=data, limit=limit, seed=seed)
    options = {**shared, "data.labels_per_class": labels, "data.subset": subset}
    settings = None if file is None else Path(file)
    prepare = partial(prepare_finetune, name, file=settings, options=options, assignments=overrides)
    if _is_restarted(out) and not refit_on_validation:
        return resume(out, device=device, loggers=loggers, progress=progress)
    recipe, initial = prepare()
    chosen = any(word.partition("=")[0].endswith("source") for word in overrides)
    if data is None and file is None and not chosen:
        require_known_source(recipe.data.source)
    step = None if initial is None else initial.provenance["pretrained"]["step"]
    weights = "from scratch" if step is None else f"from step {step} of {name}"
    with process_group(device) as where:
        _check_memory(recipe, where)

        def observer_for(trained: Recipe) -> AbstractContextManager[RunObserver]:
            text = f"{trained.name} {weights} on {_work(trained)}, {_devices(where)}"
            text += f"; augmentation: {trained.data.augment.label()}"
            return nullcontext(observer(trained, text, progress, loggers=loggers))

        if refit_on_validation:
            status = finetune_and_refit(prepare, Path(out), device=where, observer_for=observer_for)
        else:
            _check_paths(recipe, out)
            with observer_for(recipe) as watch:
                status = train_recipe(recipe, Path(out), device=where, observer=watch, initial=initial)
        return finished(status, device)


def _search_start(
    source: str | Recipe | PathLike,
    finetune: bool,
    *,
    file: PathLike | None,
    options: dict[str, Any],
    overrides: Sequence[str],
) -> Callable[[], FineTuneStart]:
    """Return what gives the recipe of a search and the weights that a trial starts from; None: from scratch.

    Raises ValueError for a recipe that is no name and is to be fine-tuned.
    """
    if not isinstance(source, Recipe) and (finetune or Path(source).exists()):
        settings = None if file is None else Path(file)
        return partial(
            prepare_finetune, os.fspath(source), file=settings, options=options, assignments=overrides
        )
    if finetune:
        raise ValueError("finetune=True needs a run folder or the name of a recipe")
    recipe = source if isinstance(source, Recipe) else os.fspath(source)
    return lambda: FineTuneStart(
        resolve_recipe(recipe, file=file, options=options, overrides=overrides), None
    )


def resolve_recipe(
    recipe: str | Recipe,
    *,
    file: PathLike | None = None,
    options: dict[str, Any] | None = None,
    overrides: Sequence[str] = (),
) -> Recipe:
    """Return a recipe after all overrides: those of a file, of arguments, and as `path=value`; later win.

    Raises ValueError that names the wrong setting.
    """
    path = None if file is None else Path(file)
    return registry.resolve(recipe, file=path, options=options, assignments=overrides).recipe


def _is_restarted(out: PathLike) -> bool:
    """Whether torchrun has started this command again, and the run can be resumed."""
    return ranks.num_restarts() > 0 and RunFolder(Path(out)).has_checkpoints


def _devices(device: torch.device) -> str:
    """Return the device of this process, and how many there are."""
    count = ranks.num_ranks()
    return f"{count} × " * (count > 1) + devices.describe_device(device)


def _check_paths(recipe: Recipe, out: PathLike) -> None:
    """Raise ValueError for a folder that is not new and for missing images, before anything is shown."""
    require_new(Path(out))
    open_source(recipe.data)


def _check_memory(recipe: Recipe, device: torch.device) -> None:
    """Raise ValueError for training that cannot fit into the memory of a device; warn if it hardly fits."""
    recipe.train.check_ranks(ranks.num_ranks())
    if recipe.predicts_codes:  # the estimate is of the loss of codes, which takes more than that of classes
        total, free = devices.total_memory(device), devices.free_memory(device)
        if warning := check_memory(recipe, total=total, free=free, num_ranks=ranks.num_ranks()):
            logger.warning("%s", warning)


def _work(recipe: Recipe) -> str:
    train = recipe.train
    return (
        f"{recipe.data.source}, {train.steps} steps, batch size {train.batch_size}, {train.optimizer.label()}"
    )
