"""Train from Python: pretrain, resume, search_lr and finetune."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from isopix.api.run import (
    Interrupted,
    Run,
    TrainingProgress,
    finished,
    observer,
    run_folder,
    shared_overrides,
)
from isopix.core import device as devices
from isopix.core.config import change, flatten, parse, read_values
from isopix.recipes import registry
from isopix.recipes.recipe import Recipe
from isopix.runs.finetune import prepare_finetune
from isopix.runs.load import find, recipe_of
from isopix.runs.lr_search import pretraining, search
from isopix.runs.pretrain import Watch, start
from isopix.runs.pretrain import resume as resume_run
from isopix.runs.refit import fold_back
from isopix.train.lr_search import LRSearch, lr_grid

LEARNING_RATE = "optimizer.learning_rate"

PathLike = str | os.PathLike[str]


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
    tensorboard: bool = False,
    progress: TrainingProgress | None = None,
) -> Run:
    """Pre-train a recipe on images, into the new run folder `out`.

    `overrides` are settings as `path=value`, which win over the arguments and over those in `file`.
    `progress` is called with the recipe and every record of the log. Raises ValueError for wrong settings,
    data or folders, before training; RuntimeError if the disk is full or the loss is not finite; Interrupted
    if asked to stop, after saving.
    """
    options = {
        **shared_overrides(data=data, limit=limit, seed=seed, palette=palette),
        "probe_every": probe_every,
    }
    resolved = resolve_recipe(recipe, file=file, options=options, overrides=overrides)
    where = devices.select_device(device)
    with observer(resolved, where, progress, tensorboard=tensorboard) as watch:
        outcome = start(resolved, Path(out), device=where, watch=watch)
    return finished(outcome.run, outcome, device)


def resume(
    run: Run | PathLike,
    *,
    device: str = "auto",
    tensorboard: bool = False,
    progress: TrainingProgress | None = None,
) -> Run:
    """Resume an interrupted run from its last checkpoint; bit-exact on the same CPU, threads and versions.

    Raises ValueError if there is nothing to resume or the data have changed, and what `pretrain` raises.
    """
    folder, where = run_folder(run), devices.select_device(device)
    recipe = recipe_of(find(folder.path, ())[0])
    with observer(recipe, where, progress, tensorboard=tensorboard) as watch:
        outcome = resume_run(folder.path, device=where, watch=watch)
    return finished(folder, outcome, device)


def search_lr(
    recipe: str | Recipe,
    *,
    data: PathLike | None = None,
    out: PathLike,
    overrides: Sequence[str] = (),
    file: PathLike | None = None,
    palette: PathLike | None = None,
    limit: int | None = None,
    seed: int | None = None,
    max_lr: float = 0.01,
    min_lr: float = 0.00001,
    device: str = "auto",
    progress: TrainingProgress | None = None,
) -> LRSearch:
    """Search for a learning rate from large to small, 0.01, 0.003, 0.001 ..., in the folder `out`.

    Each trial is a run. The search ends after the first trial whose final validation loss is higher than that
    of the one before; called again, it resumes. The `chosen` trial has the lowest loss, and is None if all
    diverged. Raises ValueError for wrong settings and other folders, Interrupted if asked to stop.
    """
    if LEARNING_RATE in parse(overrides):
        raise ValueError(f"{LEARNING_RATE} is what search_lr searches for; set max_lr and min_lr instead")
    options = shared_overrides(data=data, limit=limit, seed=seed, palette=palette)
    resolved = resolve_recipe(recipe, file=file, options=options, overrides=overrides)
    rates, where = lr_grid(max_lr, min_lr), devices.select_device(device)

    @contextmanager
    def watching(rate: float) -> Iterator[Watch]:
        at_rate = replace(resolved, optimizer=replace(resolved.train.optimizer, learning_rate=rate))
        with observer(at_rate, where, progress) as watch:
            yield watch

    result = search(Path(out), rates, training=pretraining(resolved, where), watching=watching)
    if not result.finished:
        raise Interrupted(f"stopped and saved: {out}", result)
    return result


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
    tensorboard: bool = False,
    progress: TrainingProgress | None = None,
) -> Run:
    """Fine-tune a run to classify labeled images, or train the recipe of that name from scratch.

    The weights with the best validation accuracy are evaluated on the test images. `labels` keeps that many
    training images of each class, or a fraction as in `10%`, of the random subset number `subset`. With
    `refit_on_validation` the number of steps is chosen on the validation images, then training is repeated on
    train + validation. Raises what `pretrain` raises.
    """
    shared = shared_overrides(data=data, limit=limit, seed=seed)
    options = {**shared, "data.labels": labels, "data.subset": subset}
    settings = None if file is None else Path(file)
    prepare = partial(prepare_finetune, os.fspath(source), file=settings, options=options, assignments=overrides)
    (recipe, origin), where = prepare(), devices.select_device(device)

    @contextmanager
    def watching(trained: Recipe) -> Iterator[Watch]:
        with observer(trained, where, progress, tensorboard=tensorboard) as watch:
            yield watch

    if refit_on_validation:
        outcome = fold_back(prepare, Path(out), device=where, watching=watching)
    else:
        with watching(recipe) as watch:
            outcome = start(recipe, Path(out), device=where, watch=watch, origin=origin)
    return finished(outcome.run, outcome, device)


def resolve_recipe(
    recipe: str | Recipe,
    *,
    file: PathLike | None = None,
    options: dict[str, object] | None = None,
    overrides: Sequence[str] = (),
) -> Recipe:
    """Return a recipe after all overrides: those of a file, of arguments, and as `path=value`; later win.

    Raises ValueError that names the wrong setting.
    """
    path = None if file is None else Path(file)
    if isinstance(recipe, str):
        return registry.resolve(recipe, file=path, options=options, assignments=overrides).recipe
    given = {name: value for name, value in (options or {}).items() if value is not None}
    for changes in (flatten(read_values(path)) if path else {}, given, parse(overrides)):
        recipe = change(recipe, registry.sized(changes))
    return recipe
