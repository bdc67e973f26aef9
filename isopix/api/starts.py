"""What a training starts from: its recipe after all overrides, and the checks that need no device."""

import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from isopix.api.arguments import PathLike
from isopix.core.config import to_dict
from isopix.core.overrides import parse, resolve_setting
from isopix.data.dataset import open_source
from isopix.data.known_sources import require_known_source
from isopix.pretrained.run import run_folder, shared_overrides
from isopix.recipes import registry
from isopix.recipes.recipe import Recipe
from isopix.runs.continued import prepare_continued
from isopix.runs.finetune import prepare_finetune
from isopix.runs.load import saved_recipe
from isopix.runs.lr_search import trial_recipe
from isopix.runs.metric_loggers import check_loggers
from isopix.runs.pretrain import TrainingStart
from isopix.runs.resume import FOLDER_LOCK
from isopix.storage.run_folder import RunFolder, require_new
from isopix.train.lr_search import lr_grid

LEARNING_RATE = "train.optimizer.lr"

Prepare = Callable[[], TrainingStart]  # called for each run, as training changes the weights


def pretrain_start(
    recipe: str | Recipe | None,
    *,
    weights: PathLike | None,
    data: PathLike | None,
    overrides: Sequence[str],
    file: PathLike | None,
    palette: PathLike | None,
    limit: int | None,
    seed: int | None,
    probe_every: int | None,
) -> TrainingStart:
    """Return the recipe that `pretrain` trains with these arguments, and the weights to start from.

    Raises ValueError for a wrong one, and for neither a recipe nor weights.
    """
    shared = shared_overrides(data=data, limit=limit, seed=seed, palette=palette)
    options = {**shared, "probe_every": probe_every}
    if weights is None:
        if recipe is None:
            raise ValueError("pretrain needs the name of a recipe (isopix recipe list), or --from RUN")
        return TrainingStart(resolve_recipe(recipe, file=file, options=options, overrides=overrides), None)
    settings = None if file is None else Path(file)
    start = prepare_continued(
        os.fspath(weights), recipe, file=settings, options=options, assignments=overrides
    )
    if recipe is None and data is None and file is None and not _chooses_source(overrides):
        require_known_source(start.recipe.data.source)
    return start


def _chooses_source(overrides: Sequence[str]) -> bool:
    return any(word.partition("=")[0].endswith("source") for word in overrides)


def finetune_start(
    source: PathLike,
    *,
    data: PathLike | None,
    overrides: Sequence[str],
    file: PathLike | None,
    limit: int | None,
    labels: int | str | None,
    subset: int | None,
    seed: int | None,
) -> Prepare:
    """Return what gives the recipe and the initial weights of `finetune` with these arguments; it raises
    ValueError for a wrong one.
    """
    shared = shared_overrides(data=data, limit=limit, seed=seed)
    options = {**shared, "data.labels_per_class": labels, "data.subset": subset}
    settings = None if file is None else Path(file)

    def prepare() -> TrainingStart:
        start = prepare_finetune(os.fspath(source), file=settings, options=options, assignments=overrides)
        if data is None and file is None and not _chooses_source(overrides):
            require_known_source(start.recipe.data.source)
        return start

    return prepare


def search_start(
    source: str | Recipe | PathLike,
    *,
    data: PathLike | None,
    overrides: Sequence[str],
    file: PathLike | None,
    palette: PathLike | None,
    limit: int | None,
    seed: int | None,
    finetune: bool,
) -> Prepare:
    """Return what gives the recipe of a search and the weights that a trial starts from; None: from scratch.

    Raises ValueError for a recipe that is no name and is to be fine-tuned, and for a learning rate among the
    overrides.
    """
    options = shared_overrides(data=data, limit=limit, seed=seed, palette=palette)
    prepare = _prepare_trial(source, finetune, file=file, options=options, overrides=overrides)
    values = to_dict(prepare().recipe)
    if any(resolve_setting(values, path) == LEARNING_RATE for path in registry.full_names(parse(overrides))):
        raise ValueError(f"{LEARNING_RATE} is what the search varies; set max_lr and min_lr instead")
    return prepare


def _prepare_trial(
    source: str | Recipe | PathLike,
    finetune: bool,
    *,
    file: PathLike | None,
    options: dict[str, Any],
    overrides: Sequence[str],
) -> Prepare:
    if not isinstance(source, Recipe) and (finetune or Path(source).exists()):
        settings = None if file is None else Path(file)
        return partial(
            prepare_finetune, os.fspath(source), file=settings, options=options, assignments=overrides
        )
    if finetune:
        raise ValueError("finetune=True needs a run folder or the name of a recipe")
    recipe = source if isinstance(source, Recipe) else os.fspath(source)
    return lambda: TrainingStart(
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


def check_new_run(recipe: Recipe, out: PathLike) -> None:
    """Raise ValueError for a folder that is not new and for missing images, before anything is shown."""
    require_new(Path(out))
    open_source(recipe.data)


def check_job(
    recipe: Recipe, out: PathLike, loggers: Sequence[str], num_ranks: int, *, refit: bool = False
) -> None:
    """Raise ValueError for a training that would fail in a job of that many processes before its first step;
    a `refit` may continue the one in its folder.
    """
    check_loggers(loggers)
    recipe.train.check_ranks(num_ranks)
    if not (refit and RunFolder(Path(out)).selection.is_dir()):
        require_new(Path(out))
    open_source(recipe.data)


def check_resume(run: PathLike, loggers: Sequence[str], num_ranks: int) -> None:
    """Raise ValueError for a run that cannot be resumed in a job of that many processes."""
    check_loggers(loggers)
    recipe = saved_recipe(run_folder(run).path)
    recipe.train.check_ranks(num_ranks)
    open_source(recipe.data)


def check_search(recipe: Recipe, out: PathLike, max_lr: float, min_lr: float, num_ranks: int) -> None:
    """Raise ValueError for a search that would fail in a job before its first trial."""
    lr_grid(max_lr, min_lr)
    recipe.train.check_ranks(num_ranks)
    if not (Path(out) / FOLDER_LOCK).is_file():
        require_new(Path(out))
    trial_recipe(recipe)
