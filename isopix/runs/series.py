"""Series of trainings in a folder: a learning-rate search, and fine-tuning on subsets of few labels."""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch

from isopix.core.config import from_dict
from isopix.core.progress import announce, track
from isopix.core.signals import Interrupted
from isopix.data.dataset import DataConfig, ImageDataset
from isopix.probing.config import FewLabelsConfig
from isopix.probing.results import FewLabels
from isopix.recipes import registry
from isopix.recipes.recipe import Recipe
from isopix.recipes.results import SEARCH
from isopix.runs.load import find_checkpoint
from isopix.runs.pretrain import require_validation, training_data
from isopix.runs.results import LR_SEARCH, LRSearchResult, LRTrial, TrialStatus, best_trial, worsened
from isopix.runs.resume import Select, folder_of_runs, train_or_resume
from isopix.runs.start import TrainingStart, prepare_finetune
from isopix.runs.state import MODEL, read_environment
from isopix.runs.training_log import RunObserver, unigram_nats, validation_measurement
from isopix.storage.log import read_log
from isopix.storage.provenance import settings_hash
from isopix.storage.result import Measurement
from isopix.storage.run_folder import FOLDER_LOCK, RunFolder, require_new
from isopix.train.stopping import DivergedError, best_evaluation, chance_level_warning, has_val_accuracy
from isopix.train.train_step import NonFiniteError
from isopix.train.trainer import Record

DEFAULT_RANGE = "0.01..0.00001"
NEAR_UNIFORM = 0.99  # of the uniform loss: a network that has learned next to nothing
MIN_LOSSES = 100  # in the log of a trial, in which divergence is detected
TESTED = {"accuracy", "images", "selection_images"}  # in the log record of the test images


def trial_recipe(recipe: Recipe) -> Recipe:
    """Return the recipe of trials, without test images. Raises ValueError if nothing can select a rate."""
    if recipe.finetune is not None and not recipe.finetune.has_class_loss:
        raise ValueError(
            "a learning rate of fine-tuning is chosen by validation accuracy, which generative_weight=inf "
            "does not have"
        )
    require_validation(recipe, training_data(recipe), "a learning rate")
    log_every = min(recipe.train.log_every, max(1, recipe.train.steps // MIN_LOSSES))
    return recipe.updated(num_test_images=0, log_every=log_every)


def run_lr_search(
    start: TrainingStart, out: Path, lrs: tuple[float, ...], *, device: torch.device, observer: RunObserver
) -> LRSearchResult:
    """Search for the learning rate in `out`, or continue; unfinished if a trial was asked to stop.

    Trials are compared by their final validation loss, those of fine-tuning by validation accuracy. The
    search ends after the first that is worse than the one before, and continues if `lrs` has smaller ones.
    """
    if not (out / FOLDER_LOCK).is_file():
        require_new(out)
    start = start._replace(recipe=trial_recipe(start.recipe))
    recipe, settings = start.recipe, start.settings()
    del settings["train"]["optimizer"]["lr"]
    data = training_data(recipe)
    with folder_of_runs(out, settings, "learning-rate search"):
        result = _result(lrs, _saved_trials(out, lrs), out)
        while not result.finished:
            lr = result.remaining[0]
            folder = trial_folder(out, lr)
            trial = train_at_lr(start.again(), lr, folder, device=device, observer=observer)
            if trial is None:
                break
            trial = check_trial(recipe, data, RunFolder(folder), trial)
            result = _result(lrs, (*result.trials, trial), out).saved(out / LR_SEARCH)
    return replace(result, path=out)


def lr_selection(start: TrainingStart) -> Select | None:
    """Return the search for the learning rate; None if it is known."""
    if not start.lr_origin.startswith(SEARCH):
        return None
    given = start.lr_origin.removeprefix(SEARCH).removeprefix(":") or DEFAULT_RANGE
    try:
        lrs = lr_grid(*map(float, given.split("..")))
    except (TypeError, ValueError):
        allowed = f"a number, search, or search:LARGEST..SMALLEST, as in lr=search:{DEFAULT_RANGE}"
        raise ValueError(f"lr is '{start.lr_origin}'; allowed: {allowed}") from None
    return partial(select_lr, lrs=lrs)


def select_lr(
    start: TrainingStart, out: Path, device: torch.device, observer: RunObserver, lrs: tuple[float, ...]
) -> TrainingStart:
    """Search for the learning rate in `out`, and return the start of the training with the best one.

    Raises Interrupted if a trial was stopped, RuntimeError if none has learned anything.
    """
    result = run_lr_search(start, out, lrs, device=device, observer=observer)
    if not result.finished:
        raise Interrupted(f"stopped and saved: {out}", result)
    if result.best_lr is None:
        announce(str(result))
        raise RuntimeError(result.failure)
    assert result.measurement
    text = f"lr {result.best_lr}: {result.measurement.selection} ({out})"
    return start._replace(recipe=with_lr(start.recipe, result.best_lr), notes=(*start.notes, text))


def with_lr(recipe: Recipe, lr: float) -> Recipe:
    """Return the recipe with a learning rate."""
    return recipe.updated(optimizer=replace(recipe.train.optimizer, lr=lr))


def lr_grid(first: float, last: float) -> tuple[float, ...]:
    """Return `first`, then 3 and 1 times the powers of ten below it, down to `last` (iGPT, appendix)."""
    if not 0 < last <= first < math.inf:
        given = f"learning rates from {first:g} down to {last:g}"
        raise ValueError(f"{given}; allowed: positive numbers in decreasing order")
    powers = range(math.ceil(math.log10(first)), math.floor(math.log10(last)) - 1, -1)
    below = (float(f"{digit}e{power}") for power in powers for digit in (3, 1))
    return (first, *(lr for lr in below if last <= lr < first))


def train_at_lr(
    start: TrainingStart, lr: float, folder: Path, *, device: torch.device, observer: RunObserver
) -> LRTrial | None:
    """Train one trial from its start or last checkpoint until it ends or diverges; None if asked to stop."""
    recipe, diverged = start.recipe, None
    start = start._replace(recipe=with_lr(recipe, lr))
    try:
        status = train_or_resume(start, folder, device=device, observer=observer)
        if not status.finished:
            return None
    except (NonFiniteError, DivergedError) as error:
        diverged = error
    records = read_log(RunFolder(folder).log)
    seconds = max((each.get("seconds", 0.0) for each in records), default=0.0)
    if diverged:
        kind: TrialStatus = "diverged" if isinstance(diverged, DivergedError) else "non-finite"
        return LRTrial(lr, kind, diverged.step, None, seconds)
    evaluations = [each for each in records if each.get("split") == "validation"]
    if recipe.finetune is None:
        losses = [each["loss_nats"] for each in evaluations]
        loss = min(losses) if recipe.selects_step else losses[-1]
        return LRTrial(lr, "completed", status.step, loss, seconds)
    evaluations = list(filter(has_val_accuracy, evaluations))
    kept = best_evaluation(evaluations) if recipe.selects_step else evaluations[-1]
    assert kept is not None, "the run was checked to have validation images"
    return LRTrial(lr, "completed", kept["step"], None, seconds, accuracy=kept["accuracy"])


def trial_folder(out: Path, lr: float) -> Path:
    """Return the run folder of a learning rate."""
    return out / f"lr-{lr}"


def check_trial(recipe: Recipe, data: ImageDataset, run: RunFolder, trial: LRTrial) -> LRTrial:
    """Return the trial, as failed if its loss or accuracy shows that nothing was learned."""
    reason = ""
    if trial.accuracy is not None:
        labels = data.validation.sample(recipe.train.evaluate_images).labels
        assert labels is not None, "they are labeled"
        reason = chance_level_warning(trial.accuracy, labels).partition(";")[0]
    elif trial.loss is not None:
        unigram = unigram_nats(read_log(run.log))
        bounds = [] if unigram is None else [(unigram, f"the unigram baseline {unigram:.4f}")]
        if recipe.model.head.categorical:
            uniform = math.log(find_checkpoint(run.path, (MODEL,)).network().codec.vocab_size)
            bounds.append((NEAR_UNIFORM * uniform, f"{NEAR_UNIFORM:.0%} of the uniform loss {uniform:.4f}"))
        bound, name = min(bounds, default=(math.inf, ""))
        if trial.loss >= bound:
            reason = f"final validation loss {trial.loss:.4f} is not below {name}"
    return replace(trial, status="failed", reason=reason) if reason else trial


def _saved_trials(out: Path, lrs: tuple[float, ...]) -> tuple[LRTrial, ...]:
    trials = LRSearchResult.read(out / LR_SEARCH).trials if (out / LR_SEARCH).is_file() else ()
    tried = tuple(trial.lr for trial in trials)
    if tried != lrs[: len(tried)]:
        had, given = (", ".join(map(str, each)) for each in (tried, lrs))
        raise ValueError(f"the learning-rate search in {out} has tried {had}, not {given}")
    return trials


def _result(lrs: tuple[float, ...], trials: tuple[LRTrial, ...], out: Path) -> LRSearchResult:
    finished = worsened(trials) or len(trials) == len(lrs)
    best = best_trial(trials) if finished else None
    return LRSearchResult(
        lrs=lrs,
        trials=trials,
        finished=finished,
        best_lr=best.lr if best else None,
        measurement=_measurement(trial_folder(out, trials[0].lr)) if trials else None,
        path=out,
    )


def _measurement(trial: Path) -> Measurement:
    record = validation_measurement(read_log(RunFolder(trial).log))
    selection = f"learning rate chosen on {record['images']:,} validation images"
    return from_dict(Measurement, {**record, "selection": selection})


def prepare_low_data(
    run: RunFolder, settings: Sequence[str], config: FewLabelsConfig, images: DataConfig, num_test_images: int
) -> TrainingStart:
    """Prepare to fine-tune a run on subsets of the probed images and to test on all `num_test_images`."""
    words = [f"steps={config.finetune_steps}", *settings]
    start = prepare_finetune(str(run.path), words, options={"num_test_images": num_test_images})
    registry.require_lr(start.lr_origin)
    recipe = start.recipe
    for path in registry.setting_paths(recipe, settings):
        if path == "train.seed" or (path.startswith("data.") and not path.startswith("data.augment")):
            raise ValueError(
                f"{path} cannot be set here: fine-tuning uses the images and subsets that are probed; "
                "give --data or --limit"
            )
    return start._replace(recipe=recipe.updated(data=replace(images, augment=recipe.data.augment)))


def finetune_low_data(
    start: TrainingStart, config: FewLabelsConfig, out: Path, device: torch.device
) -> tuple[FewLabels, ...]:
    """Fine-tune on each subset, in a folder in `out` for these settings; finished runs are read."""
    results, done, total = [], 0, len(config.labels) * config.subsets
    settings = start.settings()
    out = out / f"finetune-{settings_hash(settings)}"
    with folder_of_runs(out, settings, "fine-tuning on few labels"), track("fine-tuning", total) as show:
        for count in config.labels:
            tests = []
            for subset in range(config.subsets):
                folder = RunFolder(out / f"labels-{count}-subset-{subset}")
                data = replace(start.recipe.data, labels_per_class=count, subset=subset)
                own = start.again()._replace(recipe=start.recipe.updated(data=data))
                observer = RunObserver(shown=False)
                if not train_or_resume(own, folder.path, device=device, observer=observer).finished:
                    raise KeyboardInterrupt
                tests.append(_test_record(folder))
                error, steps = 1 - float(tests[-1]["accuracy"]), tests[-1]["step"]
                announce(f"labels per class: {count}, subset {subset}: test error {error:.1%}, {steps} steps")
                show(done := done + 1)
            few = FewLabels(
                count,
                num_train_images=read_environment(folder).images["train"],
                num_test_images=tests[0]["images"],
                layer=None,
                errors=tuple(1 - float(each["accuracy"]) for each in tests),
                num_selection_images=tests[0]["selection_images"],
            )
            results.append(few)
    return tuple(results)


def _test_record(folder: RunFolder) -> Record:
    records = [each for each in read_log(folder.log) if each.keys() >= TESTED]
    if not records:
        missing = f"the log of {folder.path} has no test accuracy"
        raise ValueError(f"{missing}; delete the folder to train it again")
    return records[-1]
