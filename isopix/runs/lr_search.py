"""Learning-rate search of pre-training or fine-tuning in a folder; each trial is a run folder of its own."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from isopix.core.measurement import Measurement
from isopix.core.text import command_line, count_of
from isopix.data.dataset import ImageDataset, load_dataset
from isopix.finetuning.config import FineTuneConfig
from isopix.recipes.recipe import Recipe
from isopix.runs.load import find_checkpoint
from isopix.runs.measurements import validation_measurement
from isopix.runs.observer import RunObserver
from isopix.runs.pretrain import check_data, require_validation
from isopix.runs.results import LRSearch, LRSearchResult, LRTrial, TrialStatus
from isopix.runs.resume import folder_of_runs, train_or_resume
from isopix.runs.start import InitialWeights, Prepare, TrainingStart, start_settings
from isopix.runs.state import MODEL, codec_of, state_of
from isopix.runs.training_log import unigram_nats
from isopix.storage.log import read_log
from isopix.storage.run_folder import RunFolder
from isopix.train.stopping import (
    DivergedError,
    DivergenceDetector,
    best_evaluation,
    chance_level_warning,
    has_val_accuracy,
)
from isopix.train.train_step import NonFiniteError
from isopix.train.trainer import Record

FILE = "lr_search.json"
NEAR_UNIFORM = 0.99  # of the uniform loss: a network that has learned next to nothing


def trial_recipe(recipe: Recipe) -> Recipe:
    """Return the recipe of trials: without test images, which may not select anything.

    Raises ValueError if there are no validation images, and for fine-tuning without classes.
    """
    if recipe.finetune is not None and not recipe.finetune.has_class_loss:
        raise ValueError(
            "a learning rate of fine-tuning is chosen by validation accuracy, which generative_weight=inf "
            "does not have"
        )
    require_validation(recipe, load_dataset(recipe.data), "a learning rate")
    return recipe.updated(num_test_images=0)


def run_lr_search(
    prepare: Prepare,
    out: Path,
    lrs: tuple[float, ...],
    *,
    device: torch.device,
    words: tuple[str, ...] = (),
    observer_for: Callable[[str], RunObserver] = RunObserver,
) -> LRSearchResult:
    """Search for the learning rate of a training in `out`, or continue the search there; unfinished if a
    trial was asked to stop.

    Trials of pre-training are compared by their final validation loss, those of fine-tuning by the validation
    accuracy of the weights that are kept; see `check_trial` for trials that learn nothing.

    After an interruption at any moment the same call continues. A search that reached its smallest learning
    rate continues if `lrs` has smaller ones. Raises ValueError for a folder with anything else, a search with
    other settings, or in use, and what `trial_recipe` and `train_or_resume` raise.
    """
    start = prepare()
    recipe = trial_recipe(start.recipe)
    settings = start_settings(TrainingStart(recipe, start.initial))
    del settings["train"]["optimizer"]["lr"]
    data, train = load_dataset(recipe.data), recipe.train
    check_data(recipe, data)
    work = f"{count_of(train.steps, 'step')}, batch size {train.batch_size}"

    def run_trial(lr: float) -> LRTrial | None:
        trial = train_at_lr(
            recipe,
            lr,
            trial_folder(out, lr),
            device=device,
            observer=observer_for(f"{recipe.name}, lr {lr}, {work}"),
            initial=prepare().initial,
        )
        return trial and check_trial(recipe, data, RunFolder(trial_folder(out, lr)), trial)

    with folder_of_runs(out, settings, "learning-rate search"):
        search = LRSearch(lrs, _saved_trials(out, lrs))
        for search in continue_search(search, run_trial):  # noqa: B020 - the last one counts
            _result(search, words, out).saved(out / FILE)
        return _result(search, words, out)


def lr_grid(first: float, last: float) -> tuple[float, ...]:
    """Return `first`, then 3 and 1 times the powers of ten below it, down to `last`: 0.01, 0.003, 0.001 ...

    From iGPT, appendix. Raises ValueError unless 0 < last <= first.
    """
    if not 0 < last <= first < math.inf:
        raise ValueError(
            f"learning rates from {first:g} down to {last:g}; allowed: positive numbers in decreasing order"
        )
    powers = range(math.ceil(math.log10(first)), math.floor(math.log10(last)) - 1, -1)
    below = (float(f"{digit}e{power}") for power in powers for digit in (3, 1))
    return (first, *(lr for lr in below if last <= lr < first))


def continue_search(search: LRSearch, run_trial: Callable[[float], LRTrial | None]) -> Iterator[LRSearch]:
    """Run the remaining trials of a search, and yield the search after each.

    Ends after the first trial that is worse than the one before, or with the last learning rate. `run_trial`
    returns None if it was asked to stop; then the search stops too.
    """
    while not search.finished:
        trial = run_trial(search.remaining[0])
        if trial is None:
            return
        search = LRSearch(search.lrs, (*search.trials, trial))
        yield search


def train_at_lr(
    recipe: Recipe,
    lr: float,
    folder: Path,
    *,
    device: torch.device,
    observer: RunObserver,
    initial: InitialWeights | None = None,
) -> LRTrial | None:
    """Train one trial from its start or last checkpoint until it ends or diverges; None if asked to stop."""
    run = RunFolder(folder)
    monitor = _DivergenceMonitor(run, observer, recipe.train.steps)
    if run.has_checkpoints:
        monitor.replay()
    if monitor.diverged_at is not None:
        return _trial(run, lr, "diverged", monitor.diverged_at)
    at_lr = recipe.updated(optimizer=replace(recipe.train.optimizer, lr=lr))
    try:
        status = train_or_resume(at_lr, folder, device=device, observer=monitor.observer, initial=initial)
    except NonFiniteError as error:
        return _trial(run, lr, "non-finite", error.step)
    except DivergedError as error:
        return _trial(run, lr, "diverged", monitor.diverged_at or error.step)
    if monitor.diverged_at is not None:
        return _trial(run, lr, "diverged", monitor.diverged_at)
    if not status.finished:
        return None
    settings = recipe.finetune
    return _trial(run, lr, "completed", status.step) if settings is None else _tuned(run, lr, settings)


def trial_folder(out: Path, lr: float) -> Path:
    """Return the run folder of a learning rate."""
    return out / f"lr-{lr}"


def _trial(run: RunFolder, lr: float, status: TrialStatus, step: int) -> LRTrial:
    """Return the trial with the final loss and the time of its log."""
    records = read_log(run.log)
    losses = {
        record["step"]: record["loss_nats"]
        for record in records
        if record.get("split") == "validation" and "loss_nats" in record
    }
    seconds = max((record.get("seconds", 0.0) for record in records), default=0.0)
    return LRTrial(lr, status, step, losses.get(step) if status == "completed" else None, seconds)


def _tuned(run: RunFolder, lr: float, settings: FineTuneConfig) -> LRTrial:
    """Return the trial with the validation accuracy of the weights that are kept, and their step."""
    evaluations = list(filter(has_val_accuracy, read_log(run.log)))
    kept = best_evaluation(evaluations) if settings.early_stops else evaluations[-1]
    assert kept is not None, "the run was checked to have validation images"
    trial = _trial(run, lr, "completed", kept["step"])
    return replace(trial, loss=None, accuracy=kept["accuracy"])


def check_trial(recipe: Recipe, data: ImageDataset, run: RunFolder, trial: LRTrial) -> LRTrial:
    """Return the trial, as failed with a reason if its validation loss is not below that of the unigram
    baseline in its log, or is near the uniform loss; in fine-tuning, if its validation accuracy is not above
    chance.
    """
    if trial.status != "completed":
        return trial
    if trial.accuracy is None:
        reason = _loss_reason(recipe, run, trial)
    else:
        validation = data.validation.sample(recipe.train.evaluate_images)
        assert validation.labels is not None, "checked by require_labels"
        reason = chance_level_warning(trial.accuracy, validation.labels).partition(";")[0]
    return replace(trial, status="failed", reason=reason) if reason else trial


def _loss_reason(recipe: Recipe, run: RunFolder, trial: LRTrial) -> str:
    """Why a loss shows that nothing was learned; empty if it does not."""
    unigram = unigram_nats(read_log(run.log))
    bounds = {} if unigram is None else {f"the unigram baseline {unigram:.4f}": unigram}
    if recipe.model.head.categorical:
        uniform = math.log(codec_of(find_checkpoint(run.path, (MODEL,))[0]).vocab_size)
        bounds[f"{NEAR_UNIFORM:.0%} of the uniform loss {uniform:.4f}"] = NEAR_UNIFORM * uniform
    loss, lowest = trial.loss, min(bounds, key=bounds.__getitem__, default="")
    if loss is None or not lowest or loss < bounds[lowest]:
        return ""
    return f"final validation loss {loss:.4f} is not below {lowest}"


def _saved_trials(out: Path, lrs: tuple[float, ...]) -> tuple[LRTrial, ...]:
    """Return the trials of the search in the folder. Raises ValueError if it has tried other rates."""
    trials = LRSearchResult.read(out / FILE).trials if (out / FILE).is_file() else ()
    tried = tuple(trial.lr for trial in trials)
    if tried != lrs[: len(tried)]:
        had, given = (", ".join(map(str, each)) for each in (tried, lrs))
        raise ValueError(f"the learning-rate search in {out} has tried {had}, not {given}")
    return trials


def _result(search: LRSearch, words: tuple[str, ...], out: Path) -> LRSearchResult:
    best = None if search.best is None else search.best.lr
    chosen = (*words, f"train.optimizer.lr={best}", "--out", out / "chosen")
    return LRSearchResult(
        lrs=search.lrs,
        trials=search.trials,
        finished=search.finished,
        best_lr=best,
        command=command_line(*chosen) if words and best is not None else None,
        measurement=_measurement(out, search),
        path=out,
    )


def _measurement(out: Path, search: LRSearch) -> Measurement | None:
    """Return the measurement record of the losses or accuracies, those of all trials."""
    if not search.trials:
        return None
    record = validation_measurement(read_log(RunFolder(trial_folder(out, search.trials[0].lr)).log))
    selection = f"learning rate chosen on {record['images']:,} validation images"
    return Measurement.from_dict({**record, "selection": selection})


class _DivergenceMonitor:
    """Detects divergence in the losses of a trial, and passes everything on to another observer."""

    def __init__(self, run: RunFolder, observer: RunObserver, steps: int):
        self._run, self._observer, self._steps = run, observer, steps
        self._detector: DivergenceDetector | None = None

    @property
    def observer(self) -> RunObserver:
        """The observer of the trial, which stops one that has diverged."""
        return self._observer._replace(record=self._record, stop=self._stop, watch=self._watch)

    @property
    def diverged_at(self) -> int | None:
        """The step from which the loss was high; None if it has not diverged."""
        detector = self._detector
        return detector.high_since if detector is not None and detector.diverged else None

    def replay(self) -> None:
        """Read the losses up to the checkpoint from which the run is resumed, and delete later ones."""
        reached = state_of(find_checkpoint(self._run.path)[0]).step
        for record in read_log(self._run.log):
            self._start(record)
        file = self._run.step_losses
        losses = np.fromfile(file, np.float64)[:reached] if file.is_file() else np.empty(0)
        losses.tofile(file)
        self._update(len(losses), losses.tolist())

    def _record(self, record: Record) -> None:
        self._start(record)
        self._observer.record(record)

    def _stop(self) -> bool:
        return self.diverged_at is not None or self._observer.stop()

    def _watch(self, step: int, losses: Sequence[float]) -> None:
        file = self._run.step_losses
        with file.open("r+b" if file.exists() else "wb") as values:
            values.seek(8 * (step - len(losses)))  # earlier than the end after a rollback
            values.write(np.asarray(losses, np.float64).tobytes())
            values.truncate()
        self._update(step, losses)
        self._observer.watch(step, losses)

    def _start(self, record: Record) -> None:
        if record["kind"] == "evaluation" and record["step"] == 0 and self._detector is None:
            name = "total_nats" if "total_nats" in record else "loss_nats"
            self._detector = DivergenceDetector(self._steps, initial_loss=record[name])

    def _update(self, step: int, losses: Sequence[float]) -> None:
        """Add the losses of the steps up to `step`."""
        assert self._detector is not None, "step 0 is evaluated first"
        for number, loss in enumerate(losses, step - len(losses) + 1):
            self._detector.update(number, loss)
