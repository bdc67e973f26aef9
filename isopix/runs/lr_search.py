"""Learning-rate search in a folder; each trial is a run folder of its own."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from isopix.core.config import from_dict, to_dict
from isopix.data.dataset import load_dataset
from isopix.recipes.recipe import Recipe
from isopix.runs.load import find_checkpoint
from isopix.runs.pretrain import check_same_settings, require_validation, with_absolute_paths
from isopix.runs.resume import train_or_resume
from isopix.runs.training import RunObserver
from isopix.storage.atomic import read_json, write_json
from isopix.storage.lock import LOCK_FILE, exclusive_lock
from isopix.storage.log import read_log
from isopix.storage.run_folder import RunFolder
from isopix.train.divergence import DivergenceDetector
from isopix.train.lr_search import LRSearch, LRTrial, TrialStatus, continue_search
from isopix.train.train_step import NonFiniteError
from isopix.train.trainer import Record

FILE = "lr_search.json"

ObserverFactory = Callable[[float], AbstractContextManager[RunObserver]]


def trial_recipe(recipe: Recipe) -> Recipe:
    """Return the recipe of trials: without test images, which may not select anything.

    Raises ValueError if there are no validation images.
    """
    require_validation(recipe, load_dataset(recipe.data), "a learning rate")
    return recipe.updated(num_test_images=0)


def run_lr_search(
    recipe: Recipe,
    out: Path,
    lrs: tuple[float, ...],
    *,
    device: torch.device,
    observer_for: ObserverFactory,
) -> LRSearch:
    """Search for the learning rate of a recipe in `out`, or continue the search there; unfinished if a trial
    was asked to stop.

    After an interruption at any moment the same call continues. A search that reached its smallest learning
    rate continues if `lrs` has smaller ones. Raises ValueError for a folder with anything else, a search with
    other settings, or in use, and what `trial_recipe` and `train_or_resume` raise.
    """
    recipe = trial_recipe(recipe)
    settings = shared_settings(recipe)
    _create(out)
    with exclusive_lock(out, "folder"):
        search = LRSearch(lrs, _saved_trials(out, settings, lrs))
        _save(out, search, settings)

        def run_trial(lr: float) -> LRTrial | None:
            with observer_for(lr) as observer:
                return train_at_lr(recipe, lr, trial_folder(out, lr), device=device, observer=observer)

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
    recipe: Recipe, lr: float, folder: Path, *, device: torch.device, observer: RunObserver
) -> LRTrial | None:
    """Train one trial from its start or last checkpoint until it ends or diverges; None if asked to stop."""
    run, monitor = RunFolder(folder), _DivergenceMonitor(observer, recipe.train.steps)
    if run.has_checkpoints:
        monitor.replay(run)
    if monitor.diverged_at is not None:
        return _trial(run, lr, "diverged", monitor.diverged_at)
    monitored = observer._replace(record=monitor.record, stop=monitor.stop)
    at_lr = recipe.updated(optimizer=replace(recipe.train.optimizer, lr=lr))
    try:
        status = train_or_resume(at_lr, folder, device=device, observer=monitored)
    except NonFiniteError as error:
        return _trial(run, lr, "non-finite", error.step)
    if status.finished:
        return _trial(run, lr, "completed", status.step)
    return None if monitor.diverged_at is None else _trial(run, lr, "diverged", monitor.diverged_at)


def shared_settings(recipe: Recipe) -> dict[str, Any]:
    """Return the settings that all trials of a recipe share: all but the learning rate."""
    settings = to_dict(with_absolute_paths(recipe))
    del settings["train"]["optimizer"]["lr"]
    return settings


def trial_folder(out: Path, lr: float) -> Path:
    """Return the run folder of a learning rate."""
    return out / f"lr-{lr}"


class _DivergenceMonitor:
    """Detects divergence in the records of a trial, and passes everything on to another observer."""

    def __init__(self, observer: RunObserver, steps: int):
        self.observer, self.steps = observer, steps
        self.detector: DivergenceDetector | None = None

    @property
    def diverged_at(self) -> int | None:
        """The step from which the loss was high; None if it has not diverged."""
        return self.detector.high_since if self.detector is not None and self.detector.diverged else None

    def replay(self, run: RunFolder) -> None:
        """Read the log up to the checkpoint from which the run is resumed."""
        reached = find_checkpoint(run.path, ())[0].records["state"]["step"]
        for record in read_log(run.log):
            if record["step"] <= reached:
                self._update(record)

    def record(self, record: Record) -> None:
        self._update(record)
        self.observer.record(record)

    def stop(self) -> bool:
        return self.diverged_at is not None or self.observer.stop()

    def _update(self, record: Record) -> None:
        if record["kind"] == "evaluation" and record["step"] == 0:
            self.detector = DivergenceDetector(self.steps, initial_loss=record["loss_nats"])
        elif record["kind"] == "train" and self.detector is not None:
            self.detector.update(record["step"], record["loss_nats"])


def _trial(run: RunFolder, lr: float, status: TrialStatus, step: int) -> LRTrial:
    """Return the trial with the final loss and the time of its log."""
    records = read_log(run.log)
    losses = {
        record["step"]: record["loss_nats"]
        for record in records
        if record["kind"] == "evaluation" and record["split"] == "validation"
    }
    seconds = max((record["seconds"] for record in records if record["kind"] == "train"), default=0.0)
    return LRTrial(lr, status, step, losses[step] if status == "completed" else None, seconds)


def _create(out: Path) -> None:
    """Create the folder. Raises ValueError if anything but a search is there."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except (NotADirectoryError, FileExistsError):
        raise ValueError(f"folder {out} cannot be created: part of its path is a file") from None
    ours = (out / FILE).is_file() or all(
        path.name == LOCK_FILE or path.name[0] == "." for path in out.iterdir()
    )
    if not ours:
        raise ValueError(f"folder {out} is not empty and has no learning-rate search; choose another --out")


def _saved_trials(out: Path, settings: Mapping[str, Any], lrs: tuple[float, ...]) -> tuple[LRTrial, ...]:
    """Return the trials of the search in the folder, if there is one. Raises ValueError if it is another."""
    if not (out / FILE).is_file():
        return ()
    saved = read_json(out / FILE)
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
    state = {"best_lr": best, "finished": search.finished}
    write_json(out / FILE, {"kind": "lr_search", **state, **to_dict(search), "settings": settings})
