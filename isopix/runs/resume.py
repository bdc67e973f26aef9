"""Trainings of verbs, in one process or several: new, resumed, in a folder of several runs, or refit."""

import logging
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from isopix.core import ranks
from isopix.core.config import to_dict
from isopix.core.device import DeviceLike, free_memory, total_memory
from isopix.core.overrides import changed_settings
from isopix.core.text import count_of
from isopix.core.verb import begin_work
from isopix.data.load import load_dataset, open_source
from isopix.data.sources.base import require_present
from isopix.finetuning.classifier import FineTuneConfig
from isopix.recipes.cost import check_memory
from isopix.recipes.recipe import Recipe
from isopix.runs.image_lists import leave_out_seen, load_hashes
from isopix.runs.load import find_checkpoint, saved_recipe
from isopix.runs.loggers import check_loggers
from isopix.runs.pretrain import shared_by_ranks, train_recipe
from isopix.runs.start import TrainingStart, given_settings, with_absolute_paths
from isopix.runs.state import MODEL, NUM_CHECKPOINTS, OPTIMIZER, RunStatus, SavedRun, read_environment
from isopix.runs.training import TrainingRun
from isopix.runs.training_log import RunObserver, validation_measurement
from isopix.storage.atomic import exclusive_lock, is_temporary, read_json, write_json
from isopix.storage.checkpoint import prune
from isopix.storage.log import read_log, read_valid_records
from isopix.storage.run_folder import FOLDER_LOCK, SEEN, SETTINGS, RunFolder, own_folder, require_new
from isopix.train.parallel import process_group
from isopix.train.stopping import CAUSES, best_evaluation

logger = logging.getLogger("isopix")
Select = Callable[[TrainingStart, Path, torch.device, RunObserver], TrainingStart | RunStatus]
"""Returns from runs in a folder how to train, or the status of one that was stopped."""
MAX_LISTED = 6  # settings in an error message
WITHOUT_EFFECT = ("data.store", "data.workers")  # ends of the names of settings that change no number


@contextmanager
def folder_of_runs(out: Path, settings: Mapping[str, Any], kind: str) -> Iterator[None]:
    """Create `out`, a folder of several runs, or continue it with the same settings; one process at a time.

    One in which no run was started is deleted, so that a corrected command works.
    """
    if ranks.rank() > 0:  # rank 0 holds the folder
        yield
        return
    file, given = out / SETTINGS, {"kind": kind, **settings}
    if not (out / FOLDER_LOCK).is_file():
        require_new(out)
        out.mkdir(parents=True, exist_ok=True)
    own_folder(out)
    with exclusive_lock(out, "folder", name=FOLDER_LOCK):
        try:
            if file.is_file():
                check_same_settings(f"the {kind} in {out}", read_json(file), given)
            write_json(file, given)
            yield
        finally:
            if {each.name for each in out.iterdir() if not is_temporary(each)} <= {FOLDER_LOCK, SETTINGS}:
                shutil.rmtree(out)


def check_same_settings(owner: str, saved: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Raise ValueError if settings that numbers depend on differ from those that `owner` has."""
    changed = [
        text for path, text in changed_settings(saved, given).items() if not path.endswith(WITHOUT_EFFECT)
    ]
    if changed:
        others = f"; and {len(changed) - MAX_LISTED} others" if len(changed) > MAX_LISTED else ""
        listed = "; ".join(changed[:MAX_LISTED]) + others
        raise ValueError(f"{owner} has {listed}; choose another --out")


def check_same_run(start: TrainingStart, out: Path) -> None:
    """Raise ValueError if the run in `out` has not been started so."""
    saved = given_settings(saved_recipe(out), to_dict(read_environment(RunFolder(out))))
    check_same_settings(f"run {out}", saved, start.settings())


def train_or_resume(
    start: TrainingStart, out: Path, *, device: torch.device, observer: RunObserver
) -> RunStatus:
    """Train in the run folder `out`, or resume the run that is there, which must have been started so."""
    if RunFolder(out).has_checkpoints:
        check_same_run(start, out)
        return resume_run(out, device=device, observer=observer)
    return train_recipe(start, out, device=device, observer=observer)


def resume_run(
    out: Path, *, device: torch.device, observer: RunObserver, source: str | os.PathLike[str] | None = None
) -> RunStatus:
    """Continue a run, whose images may be at another `source`; on a CPU with the same threads and versions
    bit for bit as without a stop. Raises ValueError for other images.
    """
    with shared_by_ranks(RunFolder.open(out).lock(), out) as folder:
        saved = find_checkpoint(out)
        recipe, state = _moved(saved.recipe, source), saved.state
        if OPTIMIZER not in saved.tensors:
            raise ValueError(
                f"{out} is a model without optimizer state, such as an imported one; it can be probed, "
                "sampled and reported, but its training cannot be resumed"
            )
        data = load_dataset(recipe.data)
        if data.fingerprint != state.data:
            other = f"those of run {out}: fingerprint {data.fingerprint[:12]}, not {state.data[:12]}"
            images = f"the images of '{recipe.data.source}', or their names or splits,"
            raise ValueError(f"{images} are not {other}")
        data, _ = leave_out_seen(data, load_hashes(out, SEEN, state.files), known=state.seen_known)
        prune(folder.checkpoints, NUM_CHECKPOINTS)
        notes = [*saved.skipped, *_log_notes(folder.log, state.step)]
        if source is not None:
            notes.append(f"the images of {saved.recipe.data.source} are now at {recipe.data.source}")
        if state.step < recipe.train.steps:
            notes += [*saved.changes, *_differences(saved, device)]
            notes += recipe.train.precision_notes(device)
        training = TrainingRun(folder, recipe, saved.network(), data, device, state.origin)
        return training.run(observer, saved, notes)


def _moved(recipe: Recipe, source: str | os.PathLike[str] | None) -> Recipe:
    if source is None:
        return recipe
    return with_absolute_paths(replace(recipe, data=replace(recipe.data, source=os.fspath(source))))


def _log_notes(log: Path, step: int) -> list[str]:
    if not log.exists():
        return [f"{log.name} was missing: records before step {step} are lost"] if step else []
    _, bad = read_valid_records(log)
    return [f"{log.name}: {count_of(len(bad), 'line')} skipped, no valid record"] if bad else []


def _differences(saved: SavedRun, device: torch.device) -> list[str]:
    then, now = to_dict(saved.environment), saved.recipe.train.environment(device)
    effects = dict.fromkeys(("device", "threads", "torch", "pillow"), "weights may differ in the last bits")
    effects["precision"] = "weights differ by rounding"
    return [
        f"resumed with {name} {now[name]}, the run had {then[name]}: {effect}"
        for name, effect in effects.items()
        if then[name] != now[name]
    ]


def train_selected(
    select: Select, start: TrainingStart, out: Path, device: torch.device, observer: RunObserver
) -> RunStatus:
    """Train in `out` what is selected in `out/selection`; the same call continues after an interruption."""
    chosen = select(start, RunFolder(out).selection, device, observer)
    if isinstance(chosen, RunStatus):
        return chosen
    return train_or_resume(chosen, out, device=device, observer=observer)


def select_step(
    start: TrainingStart, out: Path, device: torch.device, observer: RunObserver
) -> TrainingStart | RunStatus:
    """Select the step of fine-tuning by the run `out`, to refit on train and validation (iGPT section 3.1).

    Raises RuntimeError if no step is better than step 0.
    """
    selecting = start._replace(recipe=start.recipe.updated(num_test_images=0))
    status = train_or_resume(selecting.again(), out, device=device, observer=observer)
    return _refit_start(start, RunFolder(out)) if status.finished else status


def check_selects_step(recipe: Recipe) -> None:
    """Raise ValueError for settings under which validation selects no step, or cannot be trained on."""
    why, data = "", recipe.data
    if data.train_on_validation:
        why = "selects a step on validation images, and data.train_on_validation=true leaves none"
    elif data.labels_per_class is not None:
        why = f"trains on all labels, and data.labels_per_class={data.labels_per_class} on a subset"
    elif not recipe.selects_step:
        why = "selects a step by accuracy, and patience=null or generative_weight=inf selects none"
    if why:
        raise ValueError(f"--refit-on-validation {why}; give one of the two")


def _refit_start(start: TrainingStart, selection: RunFolder) -> TrainingStart:
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
    measurement = validation_measurement(records)
    selected = {"step": step, "validation_accuracy": accuracy, "run": str(run), "measurement": measurement}
    if start.run is None:
        start = start.untrained(find_checkpoint(run, (MODEL,)).network().codec)
    finetune = replace(start.recipe.finetune or FineTuneConfig(), patience=None)
    data = replace(start.recipe.data, train_on_validation=True)
    return start._replace(
        recipe=start.recipe.updated(data=data, finetune=finetune, steps=step, probe_every=0),
        provenance={**start.provenance, "selected": selected},
        notes=(text,),
    )


def train_in_processes(
    start: TrainingStart,
    out: Path,
    *,
    device: DeviceLike,
    loggers: Sequence[str],
    select: Select | None = None,
) -> RunStatus:
    """Train in the folder `out` what may be selected first, or resume what the same call has begun there."""
    recipe, run = start.recipe, RunFolder(out)
    check_loggers(loggers)
    recipe.outline()  # raises ValueError for parts that do not fit together
    if select is None and run.has_checkpoints:
        check_same_run(start, out)
        return resume_in_processes(out, device=device, loggers=loggers)
    if select is None or not run.selection.is_dir():
        require_new(out)
    open_source(recipe.data)
    begin_work(recipe.train.check_ranks)
    with process_group(device) as where:
        require_memory(recipe, where)
        observer = RunObserver(loggers=loggers)
        if select:
            return train_selected(select, start, out, where, observer)
        return train_recipe(start, out, device=where, observer=observer)


def resume_in_processes(
    out: Path, *, device: DeviceLike, loggers: Sequence[str], source: str | os.PathLike[str] | None = None
) -> RunStatus:
    """Resume a run. Raises ValueError if there is nothing to resume or the data have changed."""
    check_loggers(loggers)
    saved = find_checkpoint(out, ())
    recipe = _moved(saved.recipe, source)
    if source is None:
        require_present(recipe.data.source)
    open_source(recipe.data)
    begin_work(recipe.train.check_ranks)
    if saved.state.step == recipe.train.steps:
        logger.warning("%s has all its steps (%d); nothing is left to train", out, recipe.train.steps)
    with process_group(device) as where:
        recipe.train.check_ranks(ranks.num_ranks())
        return resume_run(out, device=where, observer=RunObserver(loggers=loggers), source=source)


def require_memory(recipe: Recipe, device: torch.device) -> None:
    """Raise ValueError for training that cannot fit into the memory of a device; warn if it hardly fits."""
    recipe.train.check_ranks(ranks.num_ranks())
    if recipe.predicts_codes:  # the estimate is of the loss of codes, which takes more than that of classes
        total, free = total_memory(device), free_memory(device)
        if warning := check_memory(recipe, total=total, free=free, num_ranks=ranks.num_ranks()):
            logger.warning("%s", warning)
