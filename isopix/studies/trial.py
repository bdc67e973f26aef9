"""Run one trial of a study: train, probe and measure a network, and write its result to one file."""

import multiprocessing
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from traceback import format_exc
from typing import Any, Literal, NamedTuple

import torch

from isopix.core.config import from_dict
from isopix.core.device import select_device
from isopix.data.dataset import ImageDataset, load_dataset
from isopix.probing.config import ProbeConfig
from isopix.probing.results import ProbeReport, ProbeResult
from isopix.recipes.recipe import Recipe
from isopix.runs.load import LoadedRun, load_run
from isopix.runs.lr_search import train_at_lr, trial_recipe
from isopix.runs.measurements import validation_measurement
from isopix.runs.origin import unigram_nats
from isopix.runs.probe import probe_run, save_report
from isopix.runs.training import RunObserver
from isopix.storage.atomic import read_json, write_json
from isopix.storage.lock import exclusive_lock
from isopix.storage.log import read_log
from isopix.storage.run_folder import RunFolder
from isopix.studies.inductive_bias.metrics import measure
from isopix.studies.inductive_bias.trials import Architecture, Trial
from isopix.train.lr_search import LRTrial
from isopix.train.signals import raise_on_signals

Status = Literal["not run", "done", "failed"]


@dataclass(frozen=True)
class TrialResult:
    """The status of a trial: its run folder, the learning rates that were tried (the last one is that of a
    finished trial), and its metrics. Seconds are wall-clock time.
    """

    status: Status = "not run"
    reason: str = ""  # of a failure
    traceback: str = ""
    run: str = ""
    lr_trials: tuple[LRTrial, ...] = ()
    training_seconds: float = 0.0
    probing_seconds: float = 0.0
    trial: Trial | None = None  # the losses and accuracies of a finished trial
    metrics: dict[str, Any] = field(default_factory=dict)  # of `_metrics`


class TrialSpec(NamedTuple):
    """What a process needs to run a trial; it can be pickled.

    The run folder is `folder`, with -lr-LR appended for any but the first of `lrs`. A probe reads at
    most `probe_images` of each split.
    """

    name: str
    architecture: Architecture
    recipe: Recipe
    lrs: tuple[float, ...]
    probe: ProbeConfig
    probe_images: Mapping[str, int]
    folder: Path
    result: Path

    def read(self) -> TrialResult:
        """Return the status of the trial. Raises ValueError for a damaged file, or one of another version."""
        if not self.result.is_file():
            return TrialResult()
        try:
            values = read_json(self.result)
            found = from_dict(TrialResult, {name: each for name, each in values.items() if name != "kind"})
            if found.status == "done" and found.trial is None:
                raise ValueError("it has no trial")
        except ValueError as error:
            reason = f"{self.result} cannot be read: {error}"
            raise ValueError(f"{reason}; without this file, the trial is probed again") from None
        return found

    def write(self, result: TrialResult) -> None:
        """Write the status of the trial."""
        write_json(self.result, {"kind": "trial result", **asdict(result)})

    def run(self, lr: float) -> Path:
        """Return the run folder of a learning rate."""
        return self.folder if lr == self.lrs[0] else self.folder.with_name(f"{self.folder.name}-lr-{lr}")


def run_trial(spec: TrialSpec, device: str, threads: int | None) -> None:
    """Run or resume a trial, and write its result or its failure.

    A trial that is asked to stop, or whose study has ended, saves and writes no result. It fails if another
    process is still saving it. On a CPU with the same number of threads, interruptions do not change a
    number.
    """
    if multiprocessing.parent_process() is not None:
        raise_on_signals()
    if threads is not None:
        torch.set_num_threads(threads)
    try:
        with exclusive_lock(spec.result.parent, f"trial {spec.name} in", name=f"{spec.name}.lock"):
            result = _run(spec, select_device(device))
    except KeyboardInterrupt:
        return
    except Exception as error:
        mark_failed(spec, _first_line(error), traceback=format_exc())
        return
    if result is not None:
        spec.write(result)


def mark_failed(spec: TrialSpec, reason: str, *, traceback: str = "") -> None:
    """Write that a trial failed; the learning rates that diverged stay recorded."""
    spec.write(replace(spec.read(), status="failed", reason=reason, traceback=traceback))


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), "") or type(error).__name__


def _run(spec: TrialSpec, device: torch.device) -> TrialResult | None:
    """Return the result; None if asked to stop."""
    trained = _train(spec, device)
    if trained is None:
        return None
    began = time.monotonic()
    folder = spec.run(trained.lr)
    loaded = load_run(folder, device=device)
    loaded.network.eval()
    data = _limit(load_dataset(loaded.recipe.data), spec.probe_images)
    report = probe_run(loaded, data, precision=loaded.recipe.train.precision, config=spec.probe)
    facts: dict[str, object] = {"data": data.name, "limit": None}
    save_report(RunFolder(folder), loaded.step, report, facts)
    return replace(
        spec.read(),
        status="done",
        reason="",
        traceback="",
        run=folder.name,
        training_seconds=trained.seconds,
        probing_seconds=time.monotonic() - began,
        trial=_trial(spec, trained, report.network),
        metrics={**_metrics(report, loaded, data), "loss_measurement": _loss_record(RunFolder(folder))},
    )


def _train(spec: TrialSpec, device: torch.device) -> LRTrial | None:
    """Train at the largest learning rate that does not diverge; None if asked to stop.

    Raises RuntimeError if every learning rate diverges, and what `pretrain` raises.
    """
    recipe, observer = trial_recipe(spec.recipe), RunObserver(stop=_orphaned)
    for lr in spec.lrs:
        before = spec.read()
        if lr in [each.lr for each in before.lr_trials if each.status != "completed"]:
            continue
        found = train_at_lr(recipe, lr, spec.run(lr), device=device, observer=observer)
        if found is None:
            return None
        others = tuple(each for each in before.lr_trials if each.lr != lr)
        spec.write(replace(before, status="not run", reason="", traceback="", lr_trials=(*others, found)))
        if found.loss is not None:
            return found
    first, last = spec.lrs[0], spec.lrs[-1]
    raise RuntimeError(f"the loss diverged at every learning rate from {first:g} down to {last:g}")


def _trial(spec: TrialSpec, trained: LRTrial, result: ProbeResult) -> Trial:
    return Trial(
        *spec.architecture,
        seed=spec.recipe.train.seed,
        loss=float(trained.loss or 0.0),
        test_accuracies=tuple(score.test_accuracy for score in result.layers),
        validation_accuracies=tuple(score.val_accuracy for score in result.layers),
        best_layer=result.best_index,
    )


def _metrics(report: ProbeReport, loaded: LoadedRun, data: ImageDataset) -> dict[str, Any]:
    """Return the interval of the best layer, the baselines, and the measurements of the network."""
    network, untrained = report.network, report.baselines["untrained"]
    return {
        "interval": list(network.best.interval),
        "untrained": [score.test_accuracy for score in untrained.layers],
        "untrained_best_layer": untrained.best_index,
        "raw_pixels": report.baselines["raw pixels"].best.test_accuracy,
        "majority": network.majority_accuracy,
        "images": network.num_images,
        "measurement": None if report.measurement is None else report.measurement.to_dict(),
        "measurements": measure(loaded, data.test.images),
    }


def _loss_record(run: RunFolder) -> dict[str, Any]:
    """Return the measurement record of the validation loss, with that of predicting frequencies beside it."""
    records = read_log(run.log)
    unigram = unigram_nats(records)
    baselines = {} if unigram is None else {"unigram": unigram}
    return {**validation_measurement(records), "baselines": baselines}


def _limit(data: ImageDataset, images: Mapping[str, int]) -> ImageDataset:
    return replace(
        data,
        train=data.train.sample(images["train"]),
        validation=data.validation.sample(images["validation"]),
        test=data.test.sample(images["test"]),
    )


def _orphaned() -> bool:
    """Return whether the process that started this one has ended."""
    parent = multiprocessing.parent_process()
    return parent is not None and not parent.is_alive()
